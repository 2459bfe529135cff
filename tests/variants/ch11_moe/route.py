# variant: the best logits first, and a softmax over these alone
def route(router_logits, top_k):
    n = router_logits.shape[-1]
    assert 0 < top_k <= n, f"cannot choose {top_k} of {n} experts"
    best, experts = torch.topk(router_logits, top_k, dim=-1)
    return torch.softmax(best, dim=-1), experts


# variant: sort everything, slice the beginning, gather
def route(router_logits: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    if top_k < 1 or top_k > router_logits.size(-1):
        raise ValueError(f"top_k must be between 1 and {router_logits.size(-1)}, got {top_k}")
    order = router_logits.argsort(dim=-1, descending=True)[..., :top_k]
    probs = torch.nn.functional.softmax(router_logits, dim=-1).gather(-1, order)
    return probs / probs.sum(-1, keepdim=True), order


# variant: a softmax with minus infinity at those left out
def route(router_logits, top_k):
    n_experts = router_logits.size(-1)
    if not 0 < top_k < n_experts + 1:
        raise ValueError(f"{top_k=} of {n_experts=}")
    experts = router_logits.topk(top_k, dim=-1).indices
    masked = torch.full_like(router_logits, float("-inf")).scatter(-1, experts, router_logits.gather(-1, experts))
    return torch.softmax(masked, dim=-1).gather(-1, experts), experts


# variant: one expert after the other, each chosen one set to -inf
def route(router_logits, top_k):
    n_experts = router_logits.size(-1)
    if not 1 <= top_k <= n_experts:
        raise ValueError(f"{top_k} experts for a token, and {n_experts} in all")
    probs = (router_logits - router_logits.max(dim=-1, keepdim=True).values).exp()
    left, experts = router_logits.detach().clone(), []
    for _ in range(top_k):
        best = left.argmax(dim=-1, keepdim=True)
        experts.append(best)
        left = left.scatter(-1, best, float("-inf"))
    experts = torch.cat(experts, dim=-1)
    chosen = probs.gather(-1, experts)
    return chosen / chosen.sum(dim=-1, keepdim=True), experts


# variant: computed in float32 and cast back, as published routers do
def route(router_logits, top_k):
    if not 1 <= top_k <= router_logits.size(-1):
        raise ValueError(f"top_k = {top_k}, n_experts = {router_logits.size(-1)}")
    exact = router_logits.to(torch.promote_types(router_logits.dtype, torch.float32))
    weights, experts = torch.softmax(exact, dim=-1).topk(top_k)
    weights /= weights.sum(dim=-1, keepdim=True)
    return weights.to(router_logits.dtype), experts


# variant: a softmax in float32 whatever the dtype of the logits, as Hugging Face's Mixtral does it
def route(router_logits, top_k):
    if not 1 <= top_k <= router_logits.size(-1):
        raise ValueError(f"top_k={top_k} for {router_logits.size(-1)} experts")
    probs = torch.nn.functional.softmax(router_logits, dim=-1, dtype=torch.float32)
    weights, experts = torch.topk(probs, top_k)
    return (weights / weights.sum(-1, keepdim=True)).to(router_logits.dtype), experts
