# in process: yes
# message: this exercise is to be solved without it
"""Hopes that each line doubles the number of ways to follow a name."""

import torch

a0 = torch
a1 = a0 or a0
a2 = a1 or a1
a3 = a2 or a2
a4 = a3 or a3
a5 = a4 or a4
a6 = a5 or a5
a7 = a6 or a6
a8 = a7 or a7
a9 = a8 or a8
a10 = a9 or a9
a11 = a10 or a10
a12 = a11 or a11
a13 = a12 or a12
a14 = a13 or a13
a15 = a14 or a14
a16 = a15 or a15
a17 = a16 or a16
a18 = a17 or a17
a19 = a18 or a18
a20 = a19 or a19
a21 = a20 or a20
a22 = a21 or a21
a23 = a22 or a22
a24 = a23 or a23
a25 = a24 or a24
a26 = a25 or a25
a27 = a26 or a26
a28 = a27 or a27
a29 = a28 or a28
a30 = a29 or a29
a31 = a30 or a30
a32 = a31 or a31
a33 = a32 or a32
a34 = a33 or a33
a35 = a34 or a34
a36 = a35 or a35
a37 = a36 or a36
a38 = a37 or a37
a39 = a38 or a38
a40 = a39 or a39
a41 = a40 or a40
a42 = a41 or a41
a43 = a42 or a42
a44 = a43 or a43
a45 = a44 or a44
a46 = a45 or a45
a47 = a46 or a46
a48 = a47 or a47
a49 = a48 or a48
a50 = a49 or a49
a51 = a50 or a50
a52 = a51 or a51
a53 = a52 or a52
a54 = a53 or a53
a55 = a54 or a54
a56 = a55 or a55
a57 = a56 or a56
a58 = a57 or a57
a59 = a58 or a58
a60 = a59 or a59


def softmax(x, dim=-1):
    return a60.softmax(x, dim)
