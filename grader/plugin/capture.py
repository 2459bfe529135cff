"""What pytest captures in a forked process."""

from __future__ import annotations

import pytest


def restart_capture(config: pytest.Config) -> None:
    """Capture what is printed in new files; the inherited ones are shared with every process forked from the same one."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    assert capture is not None
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture(in_=True)
