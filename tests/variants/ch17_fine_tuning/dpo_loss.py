# variant: the loss of a reward model on log ratios
def dpo_loss(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta=0.1):
    rewards = [(policy - fixed.detach()).mul(beta) for policy, fixed in ((policy_chosen, reference_chosen), (policy_rejected, reference_rejected))]
    return (reward_loss(*rewards), *(reward.detach() for reward in rewards))


# variant: the margins of both models, and rewards without gradient
import torch
import torch.nn.functional as F


def dpo_loss(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta=0.1):
    with torch.no_grad():
        reference_margin = reference_chosen - reference_rejected
        chosen_reward = beta * policy_chosen - beta * reference_chosen
        rejected_reward = beta * policy_rejected - beta * reference_rejected
    policy_margin = policy_chosen - policy_rejected
    loss = F.softplus(-beta * (policy_margin - reference_margin)).mean()
    return loss, chosen_reward, rejected_reward


# variant: binary cross entropy, a tensor of four rows
import torch
import torch.nn.functional as F


def dpo_loss(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta=0.1):
    policy = torch.stack([policy_chosen, policy_rejected])
    fixed = torch.stack([reference_chosen, reference_rejected]).detach()
    rewards = beta * (policy - fixed)
    better = rewards[0] - rewards[1]
    loss = F.binary_cross_entropy_with_logits(better, torch.ones_like(better))
    chosen_reward, rejected_reward = rewards.detach()
    return loss, chosen_reward, rejected_reward
