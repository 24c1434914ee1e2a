"""Sends notices by e-mail, in a thread that is interrupted after the timeout."""

from __future__ import annotations

import asyncio
import logging
import smtplib
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

from rqueue.notices.sender import CONCURRENCY, Undelivered, tls_context
from rqueue.notices.wording import as_text

if TYPE_CHECKING:
    import ssl

    from rqueue.notices.sink import SmtpSink
    from rqueue.notices.wording import Message

log = logging.getLogger("rqueue.notices")

# Replies from 500 on are permanent; 552 refuses a message for its size before it is sent.
PERMANENT, TOO_LARGE = 500, 552
# With this reply a server closes the connection.
CLOSING = 421
# Messages whose missing recipients are remembered; a forgotten one goes to all again.
REMEMBERED = 1000

# Recipients that were refused, and the reply codes.
Refused = dict[str, int]


class SmtpConnection(smtplib.SMTP):
    """A connection that registers with its session before the host is looked up, so that the
    session can interrupt it at any time.
    """

    def __init__(self, call: SmtpSession, **how: Any) -> None:
        self.call = call
        call.connection = self
        sink = call.sink
        super().__init__(sink.host, sink.port, timeout=sink.timeout_sec, **how)

    def getreply(self) -> tuple[int, bytes]:
        """Returns the server's reply. Raises TimeoutError if the session was interrupted."""
        if self.call.given_up:
            self.close()
            raise TimeoutError
        return super().getreply()


class TlsSmtpConnection(SmtpConnection, smtplib.SMTP_SSL):
    """A connection with TLS from the start."""


class SmtpSession:
    """One session with a mail server, in a thread that can be interrupted."""

    def __init__(self, sink: SmtpSink, password: str, context: ssl.SSLContext) -> None:
        self.sink = sink
        self.password = password
        self.context = context
        self.connection: SmtpConnection | None = None
        self.given_up = False

    def send(self, email: EmailMessage, to: Sequence[str]) -> Refused:
        """Sends an e-mail to some recipients and returns those that were refused. Raises OSError,
        the base class of smtplib's errors, if no recipient was accepted. Errors after the server
        has accepted the e-mail are ignored. An interrupted session sends nothing.
        """
        connection = self.connect()
        try:
            if self.sink.security == "starttls":
                connection.starttls(context=self.context)
            if self.sink.username is not None:
                connection.login(self.sink.username, self.password)
            refused = connection.send_message(email, self.sink.sender, to)
            with suppress(OSError):
                connection.quit()
            return codes_of(refused)
        finally:
            connection.close()

    def connect(self) -> SmtpConnection:
        """Returns a connection to the server, with TLS from the start if configured."""
        return (
            TlsSmtpConnection(self, context=self.context)
            if self.sink.security == "tls"
            else SmtpConnection(self)
        )

    def give_up(self) -> None:
        """Interrupts the thread that waits for the server. During a look-up or a handshake the
        thread is not interrupted at once, but before it reads from the server.
        """
        self.given_up = True
        sock = self.connection.sock if self.connection is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class SmtpSender:
    """Sends one e-mail for each notice. A repeated e-mail has the same Message-ID and goes only to
    the recipients that have not received it. If another process repeats it, it goes to all.
    """

    def __init__(self, sink: SmtpSink, *, password: str) -> None:
        self.sink = sink
        self.password = password
        self.context = tls_context(sink)
        # As many threads as concurrent messages: none waits for another.
        self.threads = ThreadPoolExecutor(CONCURRENCY, thread_name_prefix=f"rqueue-{sink.name}")
        # By message, the recipients that have not had it.
        self.remaining: dict[str, Sequence[str]] = {}

    async def send(self, message: Message) -> None:
        """Sends a message. Returns when the server has accepted it, else raises Undelivered."""
        to = self.remaining.get(message.id, self.sink.to)
        try:
            refused = await self.call(self.email(message), to)
        except smtplib.SMTPRecipientsRefused as error:
            if message.id not in self.remaining:
                # A refusal of all recipients is a fault of the sink's configuration.
                raise Undelivered(type(error).__name__) from None
            # Not all of them need have been tried.
            refused = dict.fromkeys(to, CLOSING) | codes_of(error.recipients)
        except smtplib.SMTPResponseException as error:
            # The text is the server's and may contain anything.
            why = f"{type(error).__name__} {error.smtp_code}"
            raise Undelivered(why, refused=is_refusal(error)) from None
        except (OSError, UnicodeError) as error:
            raise Undelivered(type(error).__name__) from None
        self.remaining.pop(message.id, None)
        if refused:
            self.note(message, refused)

    async def call(self, email: EmailMessage, to: Sequence[str]) -> Refused:
        """Sends an e-mail in a thread. Raises OSError, and Undelivered after the timeout."""
        call = SmtpSession(self.sink, self.password, self.context)
        loop = asyncio.get_running_loop()
        sending = loop.run_in_executor(self.threads, call.send, email, to)
        try:
            async with asyncio.timeout(self.sink.timeout_sec):
                return await sending
        except TimeoutError:
            raise Undelivered(f"no answer within {self.sink.timeout_sec:g} s") from None
        finally:
            call.give_up()

    def note(self, message: Message, refused: Refused) -> None:
        """Logs permanently refused recipients; they are not tried again. Raises Undelivered if some
        are refused temporarily. The notifier gives up on these after a number of attempts, because
        a mailbox that is full for days must not block the notices of the other recipients.
        """
        event = message.event
        for recipient, code in refused.items():
            if code >= PERMANENT:
                fields = {"sink": self.sink.name, "notice": event.name, "event": event.id}
                template = "recipient refused permanently: SMTP status %d"
                log.error(template, code, extra={**fields, "recipient": recipient})
        deferred = [recipient for recipient, code in refused.items() if code < PERMANENT]
        if deferred:
            self.remaining[message.id] = deferred
            if len(self.remaining) > REMEMBERED:
                del self.remaining[next(iter(self.remaining))]
            number = f"{len(deferred)} of {len(self.sink.to)} recipients"
            raise Undelivered(
                f"{number} refused temporarily, SMTP status {refused[deferred[0]]}", refused=True
            )

    def email(self, message: Message) -> EmailMessage:
        """Returns a message as an e-mail. Its texts have no line breaks; the policy refuses
        those.
        """
        email = EmailMessage(policy=SMTP)
        email["From"] = self.sink.sender
        email["To"] = ", ".join(self.sink.to)
        # The time of the event: the same for each attempt.
        email["Date"] = format_datetime(message.event.at)
        email["Subject"] = f"{message.event.severity}: {message.line}"
        email["Message-ID"] = f"<{message.queue}.{message.id}@{self.sink.sender.partition('@')[2]}>"
        email["Auto-Submitted"] = "auto-generated"
        email["X-RQueue-Delivery"] = message.id
        email.set_content(as_text(message))
        return email


def codes_of(refused: Mapping[str, tuple[int, bytes]]) -> Refused:
    """Returns the refused recipients without the server's texts, which may contain anything."""
    return {recipient: code for recipient, (code, _) in refused.items()}


def is_refusal(error: smtplib.SMTPResponseException) -> bool:
    """Returns whether a reply refuses this e-mail. A refusal of the sender or of the recipients
    does not count: it depends on the sink's configuration, is the same for every e-mail, and may be
    corrected.
    """
    if isinstance(error, smtplib.SMTPDataError):
        return error.smtp_code >= PERMANENT
    return isinstance(error, smtplib.SMTPSenderRefused) and error.smtp_code == TOO_LARGE
