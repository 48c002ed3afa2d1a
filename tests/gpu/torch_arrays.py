# SPDX-License-Identifier: Apache-2.0
"""PyTorch's arrays on a real device, through the Python package: sums, an optimizer, and the order of streams.

PYTHONPATH and KVSTORE_LIBRARY say where kvstore is. Exit status 77, with the reason, without PyTorch or a device."""
import sys

try:
    import torch
    if not torch.cuda.is_available():
        raise ImportError("PyTorch finds no CUDA device")
    import kvstore
except (ImportError, OSError) as error:
    print(f"skipped: {error}")
    sys.exit(77)

N = 1 << 20
GPU = torch.device("cuda", 0)


def on(tensor, stream):
    """The tensor, labelled with the stream that its users work on."""
    return kvstore.on(kvstore.gpu(0), tensor, stream=stream.cuda_stream or 1)


def sums():
    """Of every dtype that both have, against torch's own."""
    kv = kvstore.create("device")
    kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
             torch.int64]
    for key, dtype in enumerate(kinds):
        values = [torch.arange(N, device=GPU).remainder(7).to(dtype) + i for i in range(3)]
        out = torch.zeros(N, dtype=dtype, device=GPU)
        kv.init(key, values[0])
        kv.pushpull(key, values, out=out)
        assert torch.equal(out, values[0] + values[1] + values[2]), dtype


def an_optimizer():
    """SGD with momentum, three steps, against torch.optim."""
    kv = kvstore.create("device")
    ours = torch.linspace(-1, 1, N, device=GPU)
    theirs = torch.nn.Parameter(ours.clone())
    sgd = torch.optim.SGD([theirs], lr=0.1, momentum=0.9)
    kv.init("w", ours)
    kv.set_optimizer(kvstore.optimizer.SGD(learning_rate=0.1, momentum=0.9, wd=0.0))
    for step in range(3):
        gradient = torch.cos(theirs.detach() * (step + 1))
        kv.pushpull("w", gradient, out=ours)
        theirs.grad = gradient
        sgd.step()
    assert torch.allclose(ours, theirs.detach(), rtol=1e-5, atol=1e-6), (ours - theirs).abs().max()


def streams():
    """What a stream still works on is waited for on the device, and what follows in it waits for the sum."""
    kv = kvstore.create("device")
    stream = torch.cuda.Stream()
    big = torch.randn(8192, 8192, device=GPU)
    value, out = torch.zeros(N, device=GPU), torch.zeros(N, device=GPU)
    kv.init("w", value)
    torch.cuda.synchronize()
    for round_ in range(5):
        with torch.cuda.stream(stream):
            for _ in range(4):
                big = (big @ big).clamp(-1, 1)  # some milliseconds of work
            value.fill_(round_ + 1)
            kv.pushpull("w", on(value, stream), out=on(out, stream))
            value.fill_(-1)  # after the sum has read it
            seen = out * 2
        stream.synchronize()
        assert torch.equal(seen, torch.full_like(seen, 2 * (round_ + 1))), round_


for test in (sums, an_optimizer, streams):
    test()
    print(f"{test.__name__}: passed")
