"""A store of objects that speaks as much of Amazon's S3 as Arrow needs, on loopback: real HTTP, objects in memory."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PARTS = "parts of "


class Store(BaseHTTPRequestHandler):
    """Objects by their keys, ``BUCKET/KEY``; `refuses` while the disk is full."""

    protocol_version = "HTTP/1.1"
    server: Any

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _asked(self) -> tuple[str, dict[str, list[str]], bytes]:
        parts = urlsplit(self.path)
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = _chunks(self.rfile)
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = _chunks(BytesIO(body))
        return unquote(parts.path).strip("/"), parse_qs(parts.query, keep_blank_values=True), body

    def do_PUT(self) -> None:
        key, query, body = self._asked()
        if self.server.refuses:
            self._answer(507, b"<Error><Code>InsufficientStorage</Code></Error>")
            return
        if "uploadId" in query:
            self.server.objects[f"{PARTS}{key} {int(query['partNumber'][0]):05d}"] = body
        else:
            self.server.objects[key] = body
        self._answer(200, ETag='"0"')

    def do_POST(self) -> None:
        key, query, _ = self._asked()
        objects = self.server.objects
        if "uploads" in query:
            self._answer(200, _xml("InitiateMultipartUploadResult", "<UploadId>1</UploadId>"))
        elif "delete" in query:
            self._answer(200, _xml("DeleteResult", ""))
        else:
            parts = sorted(name for name in objects if name.startswith(f"{PARTS}{key} "))
            objects[key] = b"".join(objects.pop(name) for name in parts)
            self._answer(200, _xml("CompleteMultipartUploadResult", '<ETag>"0"</ETag>'))

    def do_DELETE(self) -> None:
        key, _, _ = self._asked()
        self.server.objects.pop(key, None)
        self._answer(204)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        key, query, _ = self._asked()
        objects = self.server.objects
        if "list-type" in query:
            self._list(key, query)
        elif key in objects or "/" not in key:
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            found = objects.get(key, b"")
            part = found[int(first) : int(last) + 1 if last else None]
            whole = f"bytes {first}-{int(first) + len(part) - 1}/{len(found)}"
            more = {"Content_Range": whole} if "Range" in self.headers else {}
            self._answer(206 if more else 200, part, ETag='"0"', **more)
        else:
            self._answer(404, _xml("Error", "<Code>NoSuchKey</Code>"))

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        prefix = f"{bucket}/{query.get('prefix', [''])[0]}"
        keys = sorted(key for key in self.server.objects if key.startswith(prefix))
        delimiter = query.get("delimiter", [""])[0]
        plain = [key for key in keys if not (delimiter and delimiter in key[len(prefix) :])]
        folders = sorted({
            key[: key.index(delimiter, len(prefix)) + 1] for key in keys if delimiter and delimiter in key[len(prefix) :]
        })  # fmt: skip
        start = int(query.get("continuation-token", ["0"])[0])
        page = plain[start : start + 1000]
        more = start + len(page) < len(plain)
        said = f"<IsTruncated>{str(more).lower()}</IsTruncated><KeyCount>{len(page)}</KeyCount>"
        said += f"<NextContinuationToken>{start + len(page)}</NextContinuationToken>" if more else ""
        for key in page:
            name, size = escape(key.partition("/")[2]), len(self.server.objects[key])
            said += f"<Contents><Key>{name}</Key><Size>{size}</Size>"
            said += "<LastModified>2020-01-01T00:00:00Z</LastModified></Contents>"
        for key in folders if not start else ():
            said += f"<CommonPrefixes><Prefix>{escape(key.partition('/')[2])}</Prefix></CommonPrefixes>"
        self._answer(200, _xml("ListBucketResult", said))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _xml(name: str, body: str) -> bytes:
    return f'<?xml version="1.0"?><{name} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{body}</{name}>'.encode()


def _chunks(stream: Any) -> bytes:
    """Read chunks, each behind its length, and what trails the last, of length 0."""
    found: list[bytes] = []
    while size := int(stream.readline().partition(b";")[0], 16):
        found.append(stream.read(size))
        stream.readline()
    while stream.readline().strip():
        pass
    return b"".join(found)


@contextmanager
def object_store() -> Generator[tuple[Any, str]]:
    """Yield a store and the URL of a prefix of it, as Arrow reads it."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    server.objects, server.refuses = dict[str, bytes](), False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    where = f"endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=us-east-1"
    try:
        yield server, f"s3://key:secret@bucket/advisor?{where}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
