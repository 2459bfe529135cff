# in process: yes
"""Hopes that an exception that is no Exception, without a readable message, goes through everything."""


class Through(BaseException):
    args = property(lambda self: 1 / 0)

    def __str__(self):
        raise self

    __repr__ = __str__


def softmax(x, dim=-1):
    raise Through
