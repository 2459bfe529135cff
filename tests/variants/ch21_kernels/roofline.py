# variant: the larger pair
def roofline(flops, bytes_moved, peak_flops, bandwidth):
    seconds, _, kind = max((flops / peak_flops, 1, "compute"), (bytes_moved / bandwidth, 0, "memory"))
    return seconds, kind


# variant: intensity against balance
def roofline(flops, bytes_moved, peak_flops, bandwidth):
    if flops * bandwidth >= peak_flops * bytes_moved:
        return flops / peak_flops, "compute"
    return bytes_moved / bandwidth, "memory"


# variant: the rate that can be reached
def roofline(flops, bytes_moved, peak_flops, bandwidth):
    seconds = {"compute": flops / peak_flops, "memory": bytes_moved / bandwidth}
    kind = max(seconds, key=seconds.get)
    return seconds[kind], kind
