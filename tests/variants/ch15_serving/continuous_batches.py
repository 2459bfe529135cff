# variant: a heap of waiting requests, and seats as a list
def continuous_batches(requests, max_batch):
    import heapq

    if max_batch < 1:
        raise ValueError(f"max_batch must be at least 1, not {max_batch}")
    waiting = [(arrival, number) for number, (arrival, _) in enumerate(requests)]
    heapq.heapify(waiting)
    seats, plan = [None] * max_batch, []
    missing = [tokens for _, tokens in requests]
    while waiting or any(seat is not None for seat in seats):
        for i, seat in enumerate(seats):
            if seat is None and waiting and waiting[0][0] <= len(plan):
                seats[i] = heapq.heappop(waiting)[1]
        writing = sorted(seat for seat in seats if seat is not None)
        plan.append(writing)
        for number in writing:
            missing[number] -= 1
            if missing[number] == 0:
                seats[seats.index(number)] = None
    return plan


# variant: the first step of each request, from the times at which seats become free
def continuous_batches(requests, max_batch):
    assert max_batch >= 1, f"max_batch = {max_batch}"
    free_at = [0] * max_batch
    first = {}
    for arrival, number in sorted((arrival, number) for number, (arrival, _) in enumerate(requests)):
        seat = min(range(max_batch), key=lambda i: free_at[i])
        first[number] = max(arrival, free_at[seat])
        free_at[seat] = first[number] + requests[number][1]
    end = max((first[number] + requests[number][1] for number in first), default=0)
    return [[n for n in range(len(requests)) if first[n] <= step < first[n] + requests[n][1]] for step in range(end)]


# variant: step by step over copies of the requests
def continuous_batches(requests, max_batch):
    if not max_batch > 0:
        raise ValueError("max_batch is " + str(max_batch))
    todo = {number: list(request) for number, request in enumerate(requests)}
    active, plan, step = [], [], 0
    while todo or active:
        arrived = sorted((request[0], number) for number, request in todo.items() if request[0] <= step)
        for _, number in arrived[: max_batch - len(active)]:
            active.append([number, todo.pop(number)[1]])
        plan.append(sorted(number for number, _ in active))
        active = [[number, left - 1] for number, left in active if left != 1]
        step += 1
    return plan
