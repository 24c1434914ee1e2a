"""The application of docker-compose.yml and of the systemd units: put yours in its place."""

from rqueue import Context, Queue, RetryPolicy

queue = Queue("shop")


@queue.task("charge", priority=10, timeout=60, retry=RetryPolicy.exponential(initial=5))
async def charge(ctx: Context, order: int, cents: int) -> str:
    """Takes the money of an order."""
    await ctx.progress(f"asking the bank for {cents} cents")
    return f"receipt-{order}"
