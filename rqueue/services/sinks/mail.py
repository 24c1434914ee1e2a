"""Tells a notice by e-mail, in a thread: what waits there is woken when the time is up."""

from __future__ import annotations

import asyncio
import logging
import smtplib
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

from rqueue.errors import ConfigError
from rqueue.policy.telling import as_text
from rqueue.services.sinks.sending import AT_ONCE, Undelivered

if TYPE_CHECKING:
    from rqueue.model.sink import SmtpSink
    from rqueue.policy.telling import Letter

log = logging.getLogger("rqueue.notices")

# Replies from here on are for good; what is refused for its size alone is so before it is sent.
FOR_GOOD, TOO_LARGE = 500, 552
# With this one a server ends the conversation.
HUNG_UP = 421
# Letters of which it is remembered who lacks them; one that is forgotten goes to all again.
REMEMBERED = 1000

# Who of those that a letter was for did not have it, and the codes of the replies.
Refused = dict[str, int]


class Line(smtplib.SMTP):
    """A line to a server, shown to its call before the server is looked up and says a word."""

    def __init__(self, call: Call, **how: Any) -> None:
        self.call = call
        call.line = self
        sink = call.sink
        super().__init__(sink.host, sink.port, timeout=sink.timeout_sec, **how)

    def getreply(self) -> tuple[int, bytes]:
        """What the server says, the greeting and each answer; raises where nobody waits for it."""
        if self.call.given_up:
            self.close()
            raise TimeoutError
        return super().getreply()


class SecureLine(Line, smtplib.SMTP_SSL):
    """One that is secure from the start."""


class Call:
    """One conversation with a mail server, in a thread that can be told to give it up."""

    def __init__(self, sink: SmtpSink, password: str, context: ssl.SSLContext) -> None:
        self.sink = sink
        self.password = password
        self.context = context
        self.line: Line | None = None
        self.given_up = False

    def send(self, message: EmailMessage, to: Sequence[str]) -> Refused:
        """Hands a message over to some of whom it is for, and returns who of them was refused;
        raises OSError, which smtplib's errors are, where nobody has it. What a server says after it
        has taken the message changes nothing. One that is given up before is not sent.
        """
        line = self.opened()
        try:
            if self.sink.security == "starttls":
                line.starttls(context=self.context)
            if self.sink.username is not None:
                line.login(self.sink.username, self.password)
            refused = line.send_message(message, self.sink.sender, to)
            with suppress(OSError):
                line.quit()
            return codes_of(refused)
        finally:
            line.close()

    def opened(self) -> Line:
        """A line to the server, secure from the start where that is wanted."""
        return SecureLine(self, context=self.context) if self.sink.security == "tls" else Line(self)

    def give_up(self) -> None:
        """Wakes the thread that waits for the server. From a look-up or a handshake it cannot be
        woken: it hears of this afterwards, before it listens to the server.
        """
        self.given_up = True
        sock = self.line.sock if self.line is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class Mailer:
    """Sends one e-mail for each notice. A letter that is sent again has the same Message-ID, and
    goes to those alone who have not had it; sent again by another process, it goes to all.
    """

    def __init__(self, sink: SmtpSink, *, password: str) -> None:
        self.sink = sink
        self.password = password
        self.context = believed(sink)
        # As many as letters: the time of none goes by while it waits for another.
        self.threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"rqueue-{sink.name}")
        # Of letters that some have had, the others.
        self.left: dict[str, Sequence[str]] = {}

    async def send(self, letter: Letter) -> None:
        """Returns when the server has taken it; raises Undelivered."""
        to = self.left.get(letter.id, self.sink.to)
        try:
            refused = await self.call(self.message(letter), to)
        except smtplib.SMTPRecipientsRefused as error:
            if letter.id not in self.left:
                # What all are refused for is a matter of the sink.
                raise Undelivered(type(error).__name__) from None
            # Not all of them need have been asked.
            refused = dict.fromkeys(to, HUNG_UP) | codes_of(error.recipients)
        except smtplib.SMTPResponseException as error:
            # Its text is the server's, and may be anything.
            why = f"{type(error).__name__} {error.smtp_code}"
            raise Undelivered(why, refused=is_refusal(error)) from None
        except (OSError, UnicodeError) as error:
            raise Undelivered(type(error).__name__) from None
        self.left.pop(letter.id, None)
        if refused:
            self.note(letter, refused)

    async def call(self, message: EmailMessage, to: Sequence[str]) -> Refused:
        """Has a thread hand a message over; raises OSError, or Undelivered when the time is up."""
        call = Call(self.sink, self.password, self.context)
        loop = asyncio.get_running_loop()
        sending = loop.run_in_executor(self.threads, call.send, message, to)
        try:
            async with asyncio.timeout(self.sink.timeout_sec):
                return await sending
        except TimeoutError:
            raise Undelivered(f"no answer within {self.sink.timeout_sec:g} s") from None
        finally:
            call.give_up()

    def note(self, letter: Letter, refused: Refused) -> None:
        """Says who is refused for good, though others have the letter: nobody is to wait for them.
        Raises Undelivered where some are only put off. That ends, too: a mailbox that is full for
        days would leave no place for what the others are still to be told.
        """
        event = letter.event
        for recipient, code in refused.items():
            if code >= FOR_GOOD:
                fields = {"sink": self.sink.name, "notice": event.name, "event": event.id}
                said = "a recipient was refused for good: SMTP status %d"
                log.error(said, code, extra={**fields, "recipient": recipient})
        put_off = [recipient for recipient, code in refused.items() if code < FOR_GOOD]
        if put_off:
            self.left[letter.id] = put_off
            if len(self.left) > REMEMBERED:
                del self.left[next(iter(self.left))]
            number = f"{len(put_off)} of {len(self.sink.to)} recipients"
            raise Undelivered(f"{number} put off, SMTP status {refused[put_off[0]]}", refused=True)

    def message(self, letter: Letter) -> EmailMessage:
        """A letter as an e-mail. Its texts are lines by now; the policy refuses any other."""
        message = EmailMessage(policy=SMTP)
        message["From"] = self.sink.sender
        message["To"] = ", ".join(self.sink.to)
        # When it happened: the same at each try.
        message["Date"] = format_datetime(letter.event.at)
        message["Subject"] = f"{letter.event.severity}: {letter.line}"
        message["Message-ID"] = f"<{letter.queue}.{letter.id}@{self.sink.sender.partition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message["X-RQueue-Delivery"] = letter.id
        message.set_content(as_text(letter))
        return message


def codes_of(refused: Mapping[str, tuple[int, bytes]]) -> Refused:
    """Who was refused, without what the server said to it: that may be anything."""
    return {recipient: code for recipient, (code, _) in refused.items()}


def is_refusal(error: smtplib.SMTPResponseException) -> bool:
    """Whether a reply is about what was to be sent. Who may send, and to whom, is a matter of the
    sink: it is the same for every letter, and may be set right.
    """
    if isinstance(error, smtplib.SMTPDataError):
        return error.smtp_code >= FOR_GOOD
    return isinstance(error, smtplib.SMTPSenderRefused) and error.smtp_code == TOO_LARGE


def believed(sink: SmtpSink) -> ssl.SSLContext:
    """Whose certificates are believed; ConfigError where the file has none."""
    try:
        return ssl.create_default_context(cafile=sink.ca_file and str(sink.ca_file))
    except OSError:
        rule = f"{sink.ca_file} holds no certificates that can be read"
        raise ConfigError(f"sinks.{sink.name}.ca_file", rule) from None
