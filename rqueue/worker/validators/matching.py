"""A program that matches patterns and schemas in a process of its own, which the worker can kill.

It imports nothing of rqueue, so that it starts quickly. It reads questions as lines of JSON from
standard input and writes why each output does not pass.
"""

import json
import re
import signal
import sys
from typing import Any

MOST_ERRORS = 5


def main() -> None:
    """Answers questions until standard input is closed."""
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
    import jsonschema_rs  # noqa: PLC0415  # patterns need no package

    try:
        validator = jsonschema_rs.validator_for(schema, retriever=refuse)
    except ValueError as error:
        return f"the schema is invalid: {first_line(error)}"
    found = []
    for wrong in validator.iter_errors(output):
        place = "".join(f"[{step!r}]" for step in wrong.instance_path)
        found.append(f"result{place}: {wrong.message}")
        if len(found) == MOST_ERRORS:
            break
    return "\n".join(found)


def refuse(uri: str) -> Any:
    """Refuses a reference to another document."""
    raise ValueError(f"{uri} is not fetched")


def first_line(error: Exception) -> str:
    """The first line of an error, without the schema that follows."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


if __name__ == "__main__":
    main()
