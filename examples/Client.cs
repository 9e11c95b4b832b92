// Runs one command in the sandbox of a job, and exits with its code.
//
//   dotnet run -- REDIS_HOST:PORT JOB COMMAND [ARGUMENT]...       needs StackExchange.Redis (NuGet)
using System.Text.Json;
using StackExchange.Redis;

var server = (await ConnectionMultiplexer.ConnectAsync(args[0])).GetDatabase();
var stepId = Guid.NewGuid().ToString();
var (events, results) = ($"sandbox:{args[1]}:events", $"sandbox:{args[1]}:results:{stepId}");
var last = await server.StreamRangeAsync(events, count: 1, messageOrder: Order.Descending);
RedisValue position = last.Length > 0 ? last[0].Id : "0"; // earlier events belong to other steps
await server.ListLeftPushAsync($"sandbox:{args[1]}:in", JsonSerializer.Serialize(new {
    schemaVersion = 1, stepId, command = args[2], args = args[3..], flowControl = true, replyTo = stepId }));

RedisValue result = RedisValue.Null;
long seq = 0, missing = 0;
// Events stay in the stream until they are acknowledged: also every 2 s while the output cannot be written.
Task Acknowledge() => server.ListLeftPushAsync($"sandbox:{args[1]}:control",
    JsonSerializer.Serialize(new { kind = "read", stepId, seq = Interlocked.Read(ref seq) }));
// Null for another step's event, and for an entry of another program.
JsonElement? ReadEvent(StreamEntry entry) {
    try {
        var data = JsonDocument.Parse(entry["data"].ToString()).RootElement;
        return data.GetProperty("stepId").GetString() == stepId && data.GetProperty("seq").GetInt64() > seq
            ? data : null;
    } catch (Exception error) when (error is JsonException or KeyNotFoundException or InvalidOperationException
            or FormatException) {
        return null;
    }
}
using var signs = new Timer(_ => Acknowledge(), null, 2000, 2000);
var end = DateTime.UtcNow.AddSeconds(630); // the default timeoutSeconds, and 30 s
for (var entries = Array.Empty<StreamEntry>(); result.IsNull || entries.Length > 0;) { // events precede the result
    if (DateTime.UtcNow > end) throw new TimeoutException("no answer: is there an agent for this job?");
    if (result.IsNull) result = await server.ListRightPopAsync(results);
    entries = await server.StreamReadAsync(events, position, 1000);
    foreach (var entry in entries) {
        position = entry.Id;
        if (ReadEvent(entry) is not { } data) continue;
        missing += data.GetProperty("seq").GetInt64() - seq - 1;
        Interlocked.Exchange(ref seq, data.GetProperty("seq").GetInt64());
        var kind = data.GetProperty("kind").GetString();
        if (kind is "stdout" or "stderr")
            (kind == "stdout" ? Console.Out : Console.Error).WriteLine(data.GetProperty("line").GetString());
    }
    if (entries.Length > 0) await Acknowledge();
    else if (result.IsNull) await Task.Delay(50); // this library has no commands that block
}

using var answer = JsonDocument.Parse(result.ToString());
var code = answer.RootElement.GetProperty("exitCode").GetInt32();
if (code == -1) Console.Error.WriteLine(answer.RootElement.GetProperty("errorMessage").GetString());
if (answer.RootElement.TryGetProperty("eventCount", out var count) && count.ValueKind == JsonValueKind.Number)
    missing += Math.Max(0, count.GetInt64() - seq); // those at the end
if (missing > 0) Console.Error.WriteLine($"events are missing: {missing}");
return missing > 0 ? 125 : code & 255;
