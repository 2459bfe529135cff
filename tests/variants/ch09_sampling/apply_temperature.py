# variant: multiplied by what one divided by the temperature is
def apply_temperature(logits, temperature):
    assert temperature > 0, f"temperature must be positive, got {temperature}"
    return logits * (1.0 / temperature)


# variant: torch.div, and the input itself where nothing changes
def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    if not temperature > 0.0:
        raise ValueError("the temperature has to be positive, and is " + str(temperature))
    return logits if temperature == 1 else torch.div(logits, temperature)


# variant: in place on a copy of its own
def apply_temperature(logits, temperature):
    if temperature <= 0:
        raise ValueError(f"{temperature} <= 0")
    cooled = logits.clone()
    cooled /= temperature
    return cooled


# variant: without gradient
@torch.no_grad()
def apply_temperature(logits, temperature):
    if temperature <= 0:
        raise ValueError(f"bad temperature {temperature:g}")
    return logits.div(temperature)
