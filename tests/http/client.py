"""Steps over HTTP with Python's http.client and urllib: client.py URL, with the key in SANDBOX_HTTP_KEY."""
import http.client
import json
import os
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

URL = sys.argv[1]
KEY = {"Authorization": "Bearer " + os.environ["SANDBOX_HTTP_KEY"]}
LARGE = 20_000_000


def connect():
    return http.client.HTTPConnection(urllib.parse.urlsplit(URL).netloc, timeout=60)


def ask(connection, method, path, body=None, **headers):
    connection.request(method, path, body, {**KEY, **headers})
    response = connection.getresponse()
    text = response.read()
    return response, json.loads(text) if text else None


def expect(name, expected, actual):
    if expected != actual:
        sys.exit(f"{name}: {actual!r} instead of {expected!r}")


def one_connection():
    """All requests use one connection, which the client would open again silently."""
    connection = connect()
    connection.connect()
    socket = connection.sock
    step = json.dumps({"command": "sh", "args": ["-c", "echo a; echo b >&2; exit 3"]})
    response, state = ask(connection, "PUT", "/steps/1", step)
    expect("put", (202, "1"), (response.status, state["stepId"]))
    expect("result", 3, ask(connection, "GET", "/steps/1?wait=60")[1]["exitCode"])
    expect("conflict", 409, ask(connection, "PUT", "/steps/1", "{}")[0].status)
    instance = response.getheader("Sandbox-Instance")
    again, result = ask(connection, "PUT", "/steps/1", step, **{"Sandbox-Instance": instance})
    expect("repeated put", (200, 3), (again.status, result["exitCode"]))
    pieces = (piece for piece in [b'{"command":"cat",', b'"stdin":"', b"x" * 100000, b'"}'])
    connection.request("PUT", "/steps/2", pieces, KEY, encode_chunked=True)
    expect("chunks", 202, connection.getresponse().read() and 202)
    content = ask(connection, "GET", "/steps/2?wait=60")[1]["outputContent"]
    expect("output", 100000, len(content.strip()))
    expect("delete", 204, ask(connection, "DELETE", "/steps/2")[0].status)
    expect("one connection", True, connection.sock is socket)


def streams():
    connection = connect()
    connection.request("GET", "/steps/1/events", headers=KEY)
    lines = [json.loads(line) for line in connection.getresponse() if line.strip()]
    expect("stream", [1, 2, 3, 4, None], [line.get("seq") for line in lines])
    request = urllib.request.Request(
        URL + "/steps/1/events", headers={**KEY, "Accept": "text/event-stream", "Last-Event-ID": "2"})
    with urllib.request.urlopen(request, timeout=60) as response:
        ids = [line for line in response if line.startswith(b"id: ")]
    expect("server-sent events", [b"id: 3\n", b"id: 4\n"], ids)


def submit_and_follow():
    body = json.dumps({"command": "sh", "args": ["-c", "echo first; read line; echo $line"], "stdin": "second\n"})
    request = urllib.request.Request(
        URL + "/steps/3", body.encode(), {**KEY, "Accept": "application/x-ndjson"}, method="PUT")
    with urllib.request.urlopen(request, timeout=60) as response:
        lines = [json.loads(line) for line in response if line.strip()]
    expect("follow", ["first", "second"], [line["line"] for line in lines if line.get("kind") == "stdout"])
    expect("follow", 0, lines[-1]["exitCode"])


def many_clients():
    """Each thread puts the same step; it runs once."""
    body = json.dumps({"command": "sh", "args": ["-c", "echo $$"]})
    results = []

    def run():
        connection = connect()
        ask(connection, "PUT", "/steps/4", body)
        results.append(ask(connection, "GET", "/steps/4?wait=60")[1]["outputContent"])

    threads = [threading.Thread(target=run) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect("clients", (20, 1), (len(results), len(set(results))))


def errors():
    try:
        urllib.request.urlopen(URL + "/steps", timeout=60)
        sys.exit("no error without the key")
    except urllib.error.HTTPError as error:
        expect("without the key", (401, "unauthorized"), (error.code, json.load(error)["error"]))
    # The response arrives although the client still sends.
    connection = connect()
    try:
        connection.request("PUT", "/steps/5", b" " * LARGE)
    except BrokenPipeError:
        pass
    expect("a large body without the key", 401, connection.getresponse().status)
    response, _ = ask(connect(), "PUT", "/steps/5", '{"command":"true"}', **{"Sandbox-Instance": "0"})
    expect("another instance", 412, response.status)


one_connection()
streams()
submit_and_follow()
many_clients()
errors()
expect("shutdown", 202, ask(connect(), "PUT", "/steps/end", '{"kind":"shutdown"}')[0].status)
