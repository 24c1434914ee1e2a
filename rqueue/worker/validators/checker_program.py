"""The program of a checker process: checks outputs against patterns and schemas.

It reads checks as lines of JSON from standard input and writes why each output does not pass. It
imports nothing before the first schema, and then little, so that it starts quickly.
"""

import json
import re
import signal
import sys
from typing import Any

MOST_ERRORS = 5


def main() -> None:
    """Runs the checks that come on standard input until it is closed."""
    sys.path[:] = json.loads(sys.argv[1])
    write("ready")
    for line in sys.stdin.buffer:
        kind, value, output, limit_sec = json.loads(line)
        # The kernel ends the process on timeout, even if the worker is gone.
        signal.setitimer(signal.ITIMER_REAL, limit_sec)
        answer = (matches if kind == "regex" else conforms)(value, output)
        signal.setitimer(signal.ITIMER_REAL, 0)
        write(answer)


def write(word: object) -> None:
    """Writes one line to the worker."""
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


def matches(pattern: str, output: Any) -> str:
    """Why the whole text does not match. An output that is no string is matched as JSON."""
    compact = json.dumps(output, ensure_ascii=False, separators=(",", ":"))
    text = output if isinstance(output, str) else compact
    return "" if re.fullmatch(pattern, text) else f"the result does not match {pattern!r}"


def conforms(schema: Any, output: Any) -> str:
    """Why an output does not conform to the schema. Remote references are not fetched."""
    from rqueue.task.schema import first_line, schema_validator  # noqa: PLC0415

    try:
        validator = schema_validator(schema)
    except ValueError as error:
        return f"the schema is invalid: {first_line(error)}"
    found = []
    for wrong in validator.iter_errors(output):
        place = "".join(f"[{step!r}]" for step in wrong.instance_path)
        found.append(f"result{place}: {wrong.message}")
        if len(found) == MOST_ERRORS:
            break
    return "\n".join(found)


if __name__ == "__main__":
    main()
