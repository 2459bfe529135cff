# in process: yes
"""Hopes that every Python that starts runs its sitecustomize.py first."""


def softmax(x, dim=-1):
    return x


# ---- next to it: sitecustomize.py
import pathlib
import tempfile

pathlib.Path(tempfile.gettempdir(), "headway-attack-sitecustomize").write_text("been here")

# ---- next to it: usercustomize.py
import sitecustomize
