# in process: yes
"""Hopes that each line doubles the number of paths a name may stand for."""

import torch

a0 = torch
a1 = a0.x if a0 else a0.y
a2 = a1.x if a1 else a1.y
a3 = a2.x if a2 else a2.y
a4 = a3.x if a3 else a3.y
a5 = a4.x if a4 else a4.y
a6 = a5.x if a5 else a5.y
a7 = a6.x if a6 else a6.y
a8 = a7.x if a7 else a7.y
a9 = a8.x if a8 else a8.y
a10 = a9.x if a9 else a9.y
a11 = a10.x if a10 else a10.y
a12 = a11.x if a11 else a11.y
a13 = a12.x if a12 else a12.y
a14 = a13.x if a13 else a13.y
a15 = a14.x if a14 else a14.y
a16 = a15.x if a15 else a15.y
a17 = a16.x if a16 else a16.y
a18 = a17.x if a17 else a17.y
a19 = a18.x if a18 else a18.y
a20 = a19.x if a19 else a19.y
a21 = a20.x if a20 else a20.y
a22 = a21.x if a21 else a21.y
a23 = a22.x if a22 else a22.y
a24 = a23.x if a23 else a23.y
a25 = a24.x if a24 else a24.y
a26 = a25.x if a25 else a25.y
a27 = a26.x if a26 else a26.y
a28 = a27.x if a27 else a27.y
a29 = a28.x if a28 else a28.y
a30 = a29.x if a29 else a29.y
a31 = a30.x if a30 else a30.y
a32 = a31.x if a31 else a31.y
a33 = a32.x if a32 else a32.y
a34 = a33.x if a33 else a33.y
a35 = a34.x if a34 else a34.y
a36 = a35.x if a35 else a35.y
a37 = a36.x if a36 else a36.y
a38 = a37.x if a37 else a37.y
a39 = a38.x if a38 else a38.y
a40 = a39.x if a39 else a39.y
a41 = a40.x if a40 else a40.y
a42 = a41.x if a41 else a41.y
a43 = a42.x if a42 else a42.y
a44 = a43.x if a43 else a43.y
a45 = a44.x if a44 else a44.y
a46 = a45.x if a45 else a45.y
a47 = a46.x if a46 else a46.y
a48 = a47.x if a47 else a47.y
a49 = a48.x if a48 else a48.y
a50 = a49.x if a49 else a49.y
a51 = a50.x if a50 else a50.y
a52 = a51.x if a51 else a51.y
a53 = a52.x if a52 else a52.y
a54 = a53.x if a53 else a53.y
a55 = a54.x if a54 else a54.y
a56 = a55.x if a55 else a55.y
a57 = a56.x if a56 else a56.y
a58 = a57.x if a57 else a57.y
a59 = a58.x if a58 else a58.y
a60 = a59.x if a59 else a59.y


def softmax(x, dim=-1):
    return a60.softmax(x, dim)
