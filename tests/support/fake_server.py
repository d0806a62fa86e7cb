"""A unix socket server that sends the same bytes to everybody, whatever was asked."""

import socket
import threading


class FakeServer:
    def __init__(self, path, answer, linger=False):
        self.path = str(path)
        self.answer = answer
        self.linger = linger  # keeps the connection open instead of ending it
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.kept = []

    def __enter__(self):
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        return self

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # stopped
            try:
                connection.recv(65536)
                connection.sendall(self.answer)
            except OSError:
                pass  # the client had enough
            if self.linger:
                self.kept.append(connection)
            else:
                connection.close()

    def __exit__(self, *unused):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        for connection in self.kept:
            connection.close()
