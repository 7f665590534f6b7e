"""A batch as the service reads what a client has encoded."""

from __future__ import annotations

from advisor.protocol import encoding
from advisor.protocol.connection import RpcRequest, ServerConnection
from advisor.protocol.verbs import check_params


def over_the_wire(body: encoding.Body) -> object:
    """Return the checked parameters at the service."""
    data = encoding.encode_numbered(9, body, "p", bytes(16), 4)
    (request,) = ServerConnection().receive_requests(data)
    assert isinstance(request, RpcRequest)
    assert request.msgid == 9
    params = check_params(request.method, request.params)
    assert (params.producer, params.sequence) == ("p", 4)
    return params
