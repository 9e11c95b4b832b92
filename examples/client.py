"""Runs one command in the sandbox of a job, and exits with its code.

    python3 client.py REDIS_URL JOB COMMAND [ARGUMENT]...         needs redis (pip, or python3-redis)
"""
import json, sys, threading, time, uuid, redis

url, job, command, *arguments = sys.argv[1:]
server = redis.Redis.from_url(url, decode_responses=True, encoding_errors="replace")
step_id = str(uuid.uuid4())
events, results = f"sandbox:{job}:events", f"sandbox:{job}:results:{step_id}"
last = server.xrevrange(events, count=1)
position = last[0][0] if last else "0"  # earlier events belong to other steps
step = {"schemaVersion": 1, "stepId": step_id, "command": command, "args": arguments,
        "flowControl": True, "replyTo": step_id}
server.lpush(f"sandbox:{job}:in", json.dumps(step))
seq = missing = 0

def acknowledge():  # events stay in the stream until they are acknowledged
    server.lpush(f"sandbox:{job}:control", json.dumps({"kind": "read", "stepId": step_id, "seq": seq}))

def read_event(fields):  # None for another step's event, and for an entry of another program
    try:
        event = json.loads(fields["data"])
        return event if event["stepId"] == step_id and event["seq"] > seq else None
    except (KeyError, TypeError, ValueError):
        return None

def give_signs():  # while this program cannot write its output
    while time.sleep(2) is None:
        acknowledge()

threading.Thread(target=give_signs, daemon=True).start()
result, end = None, time.monotonic() + 630  # the default timeoutSeconds, and 30 s
while result is None:  # a step's events precede its result, so the stream is read again after it
    if time.monotonic() > end:
        sys.exit("no answer: is there an agent for this job?")
    result = server.rpop(results)
    more = True
    while more:  # after the result, until nothing is left
        more = server.xread({events: position}, count=1000, block=None if result else 1000)
        for position, fields in more[0][1] if more else []:
            event = read_event(fields)
            if event is None:
                continue
            missing, seq = missing + event["seq"] - seq - 1, event["seq"]
            if event["kind"] in ("stdout", "stderr"):
                print(event["line"], file=getattr(sys, event["kind"]), flush=True)
        if more:
            acknowledge()
        more = more and result

answer = json.loads(result)
if answer["exitCode"] == -1:
    print(answer["errorMessage"], file=sys.stderr)
missing += max(0, (answer.get("eventCount") or 0) - seq)  # those at the end
if missing:
    print(f"events are missing: {missing}", file=sys.stderr)
sys.exit(125 if missing else answer["exitCode"] % 256)
