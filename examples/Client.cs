// Runs one command in the sandbox of a job, and exits with its code.
//
//   dotnet run -- REDIS_HOST:PORT JOB COMMAND [ARGUMENT]...       needs StackExchange.Redis (NuGet)
using System.Text.Json;
using StackExchange.Redis;

var server = (await ConnectionMultiplexer.ConnectAsync(args[0])).GetDatabase();
var (events, results) = ($"sandbox:{args[1]}:events", $"sandbox:{args[1]}:results");
var last = await server.StreamRangeAsync(events, count: 1, messageOrder: Order.Descending);
RedisValue position = last.Length > 0 ? last[0].Id : "0"; // what is there belongs to earlier steps
var stepId = Guid.NewGuid().ToString();
await server.ListLeftPushAsync($"sandbox:{args[1]}:in", JsonSerializer.Serialize(
    new { schemaVersion = 1, stepId, command = args[2], args = args[3..] }));

RedisValue result;
var end = DateTime.UtcNow.AddSeconds(630); // the default timeoutSeconds, and 30 s
do { // a step's events are there before its result: so the last look comes after it
    if (DateTime.UtcNow > end) throw new TimeoutException("no answer: is there an agent for this job?");
    result = await server.ListRightPopAsync(results);
    if (!result.IsNull && Text(result.ToString(), "stepId") != stepId) result = RedisValue.Null; // of another client
    foreach (var entry in await server.StreamReadAsync(events, position)) {
        var data = entry["data"].ToString();
        if (Text(data, "stepId") == stepId && Text(data, "kind") is "stdout" or "stderr")
            (Text(data, "kind") == "stdout" ? Console.Out : Console.Error).WriteLine(Text(data, "line"));
        position = entry.Id;
    }
    if (result.IsNull) await Task.Delay(50); // this library has no commands that block
} while (result.IsNull);

using var answer = JsonDocument.Parse(result.ToString());
var code = answer.RootElement.GetProperty("exitCode").GetInt32();
if (code == -1) Console.Error.WriteLine(Text(result.ToString(), "errorMessage"));
return code & 255;

static string? Text(string json, string field) {
    using var parsed = JsonDocument.Parse(json);
    return parsed.RootElement.GetProperty(field).GetString();
}
