"""Runs one command in the sandbox of a job, and exits with its code.

    python3 client.py REDIS_URL JOB COMMAND [ARGUMENT]...         needs redis (pip, or python3-redis)
"""
import json, sys, time, uuid, redis

url, job, command, *arguments = sys.argv[1:]
server = redis.Redis.from_url(url, decode_responses=True)
events, results = f"sandbox:{job}:events", f"sandbox:{job}:results"
last = server.xrevrange(events, count=1)
position = last[0][0] if last else "0"  # what is there belongs to earlier steps
step = {"schemaVersion": 1, "stepId": str(uuid.uuid4()), "command": command, "args": arguments}
server.lpush(f"sandbox:{job}:in", json.dumps(step))

result, end = None, time.monotonic() + 630  # the default timeoutSeconds, and 30 s
while result is None:  # a step's events are there before its result: so the last look comes after it
    if time.monotonic() > end:
        sys.exit("no answer: is there an agent for this job?")
    result = server.rpop(results)
    if result and json.loads(result)["stepId"] != step["stepId"]:
        result = None  # of a client that was interrupted
    wait = {} if result else {"block": 1000}
    for _, entries in server.xread({events: position}, **wait) or []:
        for position, fields in entries:
            event = json.loads(fields["data"])
            if event["stepId"] == step["stepId"] and event["kind"] in ("stdout", "stderr"):
                print(event["line"], file=getattr(sys, event["kind"]), flush=True)

answer = json.loads(result)
if answer["exitCode"] == -1:
    print(answer["errorMessage"], file=sys.stderr)
sys.exit(answer["exitCode"] % 256)
