"""Many connections of one caller that ask without a pause: ``python -m benchmarks.crowd URL KEY PATH CONNECTIONS``.

Reads the body as a line of JSON, writes a line once all are connected, goes on until its input ends, and then writes
how many requests a second were answered and refused.
"""

import asyncio
import sys
import time

import httpx


async def crowd(url: str, key: str, path: str, connections: int, body: str) -> tuple[float, float]:
    """Answers and refusals per second."""
    answered = refused = 0
    ending = asyncio.Event()

    async def ask() -> None:
        nonlocal answered, refused
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
            while not ending.is_set():
                response = await client.post(path, content=body)
                answered, refused = answered + response.is_success, refused + (not response.is_success)
                if wait := response.headers.get("Retry-After"):
                    await asyncio.sleep(min(float(wait), 1.0))

    began = time.perf_counter()
    asking = [asyncio.create_task(ask()) for _ in range(connections)]
    await asyncio.sleep(1.0)
    print("asking", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    ending.set()
    await asyncio.gather(*asking)
    seconds = time.perf_counter() - began
    return answered / seconds, refused / seconds


if __name__ == "__main__":
    url, key, path, connections = sys.argv[1:]
    rates = asyncio.run(crowd(url, key, path, int(connections), sys.stdin.readline()))
    print(*rates, flush=True)
