"""Tells a notice by e-mail, in a thread: what waits there is woken when the time is up."""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from typing import TYPE_CHECKING

from rqueue.errors import ConfigError
from rqueue.policy.telling import as_text
from rqueue.services.sinks.sending import Undelivered

if TYPE_CHECKING:
    from rqueue.model.sink import SmtpSink
    from rqueue.policy.telling import Letter

THREADS = 2
# Replies from here on are for good; what is refused for its size alone is so before it is sent.
FOR_GOOD, TOO_LARGE = 500, 552


class Call:
    """One conversation with a mail server, in a thread that can be told to give it up."""

    def __init__(self, sink: SmtpSink, password: str, context: ssl.SSLContext) -> None:
        self.sink = sink
        self.password = password
        self.context = context
        self.server: smtplib.SMTP | None = None

    def send(self, message: EmailMessage) -> None:
        """Hands a message over; raises OSError, which smtplib's errors are. What a server says
        after it has taken the message changes nothing.
        """
        self.server = server = self.connected()
        try:
            if self.sink.security == "starttls":
                server.starttls(context=self.context)
            if self.sink.username is not None:
                server.login(self.sink.username, self.password)
            server.send_message(message, self.sink.sender, list(self.sink.to))
            with suppress(OSError):
                server.quit()
        finally:
            server.close()

    def connected(self) -> smtplib.SMTP:
        """A connection to the server, secure from the start where that is wanted."""
        host, port, wait = self.sink.host, self.sink.port, self.sink.timeout_sec
        if self.sink.security == "tls":
            return smtplib.SMTP_SSL(host, port, timeout=wait, context=self.context)
        return smtplib.SMTP(host, port, timeout=wait)

    def give_up(self) -> None:
        """Wakes the thread that waits for the server."""
        sock = self.server.sock if self.server is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class Mailer:
    """Sends one e-mail for each notice. A letter that is sent again has the same Message-ID."""

    def __init__(self, sink: SmtpSink, *, password: str) -> None:
        self.sink = sink
        self.password = password
        self.context = believed(sink)
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"rqueue-{sink.name}")

    async def send(self, letter: Letter) -> None:
        """Returns when the server has taken it; raises Undelivered."""
        call = Call(self.sink, self.password, self.context)
        loop, message = asyncio.get_running_loop(), self.message(letter)
        sending = loop.run_in_executor(self.threads, call.send, message)
        try:
            async with asyncio.timeout(self.sink.timeout_sec):
                await sending
        except TimeoutError:
            raise Undelivered(f"no answer within {self.sink.timeout_sec:g} s") from None
        except smtplib.SMTPResponseException as error:
            # Its text is the server's, and may be anything.
            why = f"{type(error).__name__} {error.smtp_code}"
            raise Undelivered(why, refused=is_refusal(error)) from None
        except (OSError, UnicodeError) as error:
            raise Undelivered(type(error).__name__) from None
        finally:
            call.give_up()

    def message(self, letter: Letter) -> EmailMessage:
        """A letter as an e-mail. Its texts are lines by now; the policy refuses any other."""
        message = EmailMessage(policy=SMTP)
        message["From"] = self.sink.sender
        message["To"] = ", ".join(self.sink.to)
        message["Subject"] = f"{letter.event.severity}: {letter.line}"
        message["Message-ID"] = f"<{letter.queue}.{letter.id}@{self.sink.sender.partition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message["X-RQueue-Delivery"] = letter.id
        message.set_content(as_text(letter))
        return message


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
