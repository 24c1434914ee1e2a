"""The example application of docker-compose.yml and the systemd units: replace it by yours."""

from rqueue import Context, Queue, RetryPolicy

queue = Queue("shop")


@queue.task("charge", priority=10, timeout=60, retry=RetryPolicy.exponential(initial=5))
async def charge(ctx: Context, order: int, cents: int) -> str:
    """Charges an order."""
    await ctx.progress(f"asking the bank for {cents} cents")
    return f"receipt-{order}"
