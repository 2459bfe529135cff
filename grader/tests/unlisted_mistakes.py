"""Wrong code of top_k_filter that no known mistake describes exactly."""

# The k-th value goes too, but with k = V nothing does: our mistake loses a value there as well.
TOP_K_WITH_A_WAY_OF_ITS_OWN = '''
def top_k_filter(logits, k):
    if k < 1:
        raise ValueError(f"k is {k}")
    V = logits.size(-1)
    if k >= V:
        return logits.clone()
    return torch.where(logits > logits.sort(dim=-1).values[..., V - k].unsqueeze(-1), logits, -math.inf)
'''
# The right k, but a filtered token keeps a little weight: the catalogue has no such mistake.
TOP_K_ALL_WRONG = TOP_K_WITH_A_WAY_OF_ITS_OWN.replace("logits > logits", "logits >= logits").replace("-math.inf", "logits - 3.21")
