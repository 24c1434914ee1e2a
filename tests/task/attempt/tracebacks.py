"""Tracebacks as Python writes them: one failure in the format of each release, and unusual ones."""

from __future__ import annotations

HEADER = "Traceback (most recent call last):"

# One failure; the source was edited between the releases, and lies elsewhere.
PYTHON_3_11 = """\
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/rqueue/worker/attempt.py", line 68, in perform
    return await handler.function(**arguments)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/app/shop.py", line 31, in charge
    orders = [load(one) for one in numbers]
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/app/shop.py", line 31, in <listcomp>
    orders = [load(one) for one in numbers]
              ^^^^^^^^^
  File "/app/orders_v2.py", line 12, in load
    return [ask(row) for row in rows(number)]
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/app/orders_v2.py", line 12, in <listcomp>
    return [ask(row) for row in rows(number)]
            ^^^^^^^^
  File "/opt/venv/lib/python3.11/site-packages/bank/wire.py", line 220, in ask
    raise Refused(f"order {row} of '{name}' is closed")
bank.wire.Refused: order 17 of 'ada' is closed"""

PYTHON_3_12 = """\
Traceback (most recent call last):
  File "/usr/local/lib/python3.12/site-packages/rqueue/worker/attempt.py", line 70, in perform
    return await handler.function(**arguments)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/shop.py", line 40, in charge
    orders = [load(one) for one in numbers]
              ^^^^^^^^^
  File "/srv/shop/orders_v3.py", line 15, in load
    return [ask(row) for row in rows(number)]
            ^^^^^^^^
  File "/usr/local/lib/python3.12/site-packages/bank/wire.py", line 231, in ask
    raise Refused(f"order {row} of '{name}' is closed")
bank.wire.Refused: order 18 of 'grace' is closed"""

PYTHON_3_13 = """\
Traceback (most recent call last):
  File "/usr/local/lib/python3.13/site-packages/rqueue/worker/attempt.py", line 70, in perform
    return await handler.function(**arguments)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/shop.py", line 44, in charge
    orders = [
        load(one)
        ~~~~^^^^^
        for one in numbers

    ]
  File "/srv/shop/orders_v3.py", line 15, in load
    return [ask(row) for row in rows(number)]
            ~~~^^^^^
  File "/usr/local/lib/python3.13/site-packages/bank/wire.py", line 240, in _ask_once
    raise Refused(
        f"order {row} of '{name}' is closed"
    )
bank.wire.Refused: order 19 of 'edsger' is closed"""

CHAINED = f"""\
{HEADER}
  File "/app/shop.py", line 3, in load
    return rows[name]
           ~~~~^^^^^^
KeyError: 'ada'

During handling of the above exception, another exception occurred:

{HEADER}
  File "/app/shop.py", line 5, in load
    connect()
OSError: [Errno 111] refused

The above exception was the direct cause of the following exception:

{HEADER}
  File "/app/shop.py", line 9, in charge
    raise Closed("no shop") from error
shop.Closed: no shop"""

GROUP = """\
+ Exception Group Traceback (most recent call last):
  |   File "/app/shop.py", line 8, in charge
  |     async with asyncio.TaskGroup() as group:
  |                ^^^^^^^^^^^^^^^^^^^
  |   File "/usr/local/lib/python3.13/asyncio/taskgroups.py", line 71, in __aexit__
  |     return await self._aexit(et, exc)
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/shop.py", line 3, in pay
    |     raise ValueError("card 7")
    | ValueError: card 7
    +---------------- 2 ----------------
    | Exception Group Traceback (most recent call last):
    |   File "/app/shop.py", line 5, in ship
    |     raise ExceptionGroup("none", [KeyError("a")])
    | ExceptionGroup: none (1 sub-exception)
    +-+---------------- 1 ----------------
      | KeyError: 'a'
      +------------------------------------"""

SYNTAX = f"""\
{HEADER}
  File "/app/shop.py", line 3, in charge
    exec(text)
  File "<string>", line 1
    x = = 3
        ^
SyntaxError: invalid syntax"""

SYNTAX_ALONE = """\
File "<string>", line 1
    x = = 3
        ^
SyntaxError: invalid syntax"""

WITHOUT_END = f"""\
{HEADER}
  File "/app/shop.py", line 3, in charge
    load(order)
  File "/app/orders.py", line 12, in load
    return row"""
