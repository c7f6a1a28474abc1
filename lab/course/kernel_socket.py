"""The browser's connection to the kernel, without the wait that TCP adds to small messages.

A slider move is answered by a few small messages. Nagle's algorithm holds back the second of them until the
browser's side has acknowledged the first, and that side delays its acknowledgement by up to 40 ms: each
waits for the other. Tornado leaves the algorithm on unless told otherwise, and Jupyter Server does not tell
it, but it lets us choose this class (``--ServerApp.kernel_websocket_connection_class``).
"""

from __future__ import annotations

from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class PromptConnection(ZMQChannelsWebsocketConnection):
    """The usual connection, with TCP_NODELAY on its socket."""

    def connect(self) -> Any:
        """Connect to the kernel's channels as usual, once small messages leave at once."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()
