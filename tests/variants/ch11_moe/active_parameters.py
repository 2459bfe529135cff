# variant: by name, each parameter of an expert above top_k is left out
def active_parameters(model):
    idle = set()
    for module in model.modules():
        if isinstance(module, MoELayer):
            for expert in module.experts[module.top_k :]:
                idle.update(expert.parameters())
    return sum(p.numel() for p in model.parameters() if p not in idle)


# variant: any module with experts and a top_k is such a layer; shares with integer division
def active_parameters(model: nn.Module) -> int:
    total = sum(p.numel() for p in model.parameters())
    for layer in model.modules():
        if hasattr(layer, "experts") and hasattr(layer, "top_k"):
            in_experts = sum(p.numel() for p in layer.experts.parameters())
            n = len(layer.experts)
            total -= in_experts - in_experts * layer.top_k // n
    return total


# variant: down the tree by recursion, remembering what was met
def active_parameters(model):
    met = set()

    def count(module):
        total = 0
        for parameter in module.parameters(recurse=False):
            if parameter not in met:
                met.add(parameter)
                total += parameter.numel()
        parts = list(module.children())
        if isinstance(module, MoELayer):
            parts = [module.router, *list(module.experts)[: module.top_k]]
        return total + sum(count(part) for part in parts)

    return count(model)


# variant: two sums over a list of layers, the experts' sizes from their shapes
def active_parameters(model):
    layers = [module for module in model.modules() if type(module) is MoELayer]
    total = count_parameters(model)
    idle = sum(p.numel() for layer in layers for number, expert in enumerate(layer.experts) for p in expert.parameters() if number >= layer.top_k)
    return total - idle
