# variant: counts with bincount
def load_balancing_loss(router_probs: Tensor, experts: Tensor) -> Tensor:
    n = router_probs.shape[-1]
    f = torch.bincount(experts.reshape(-1), minlength=n).to(router_probs.dtype) / experts.numel()
    P = router_probs.reshape(-1, n).mean(0)
    return n * torch.dot(f, P)


# variant: one_hot over the slots, averaged over every axis but the last
def load_balancing_loss(router_probs, experts):
    import torch.nn.functional as F

    n_experts = router_probs.size(-1)
    hot = F.one_hot(experts, n_experts).float()
    tokens_per_expert = hot.reshape(-1, n_experts).mean(dim=0)
    router_prob_per_expert = router_probs.reshape(-1, n_experts).mean(dim=0)
    return (tokens_per_expert.type_as(router_probs) * router_prob_per_expert).sum() * n_experts


# variant: a loop over the experts
def load_balancing_loss(router_probs, experts):
    n_experts = router_probs.shape[-1]
    loss = 0.0
    for i in range(n_experts):
        share = (experts == i).sum().item() / experts.numel()
        loss = loss + share * router_probs[..., i].mean()
    return n_experts * loss


# variant: scatter ones into zeros without gradient, k counted at the end
def load_balancing_loss(router_probs, experts):
    with torch.no_grad():
        chosen = torch.zeros_like(router_probs).scatter_(-1, experts, 1.0)
    tokens = router_probs.numel() // router_probs.size(-1)
    k = experts.size(-1)
    fractions = chosen.reshape(tokens, -1).sum(0) / (tokens * k)
    return (fractions * router_probs.reshape(tokens, -1).sum(0) / tokens).sum() * router_probs.size(-1)


# variant: the mean of what each choice looks up
def load_balancing_loss(router_probs, experts):
    n_experts = router_probs.size(-1)
    mean_prob = router_probs.flatten().unflatten(0, (-1, n_experts)).mean(dim=0)
    return n_experts * mean_prob[experts].mean()
