// Runs one command in the sandbox of a job, and exits with its code.
//
//   dotnet run -- REDIS_HOST:PORT JOB COMMAND [ARGUMENT]...       needs StackExchange.Redis (NuGet)
using System.Text.Json;
using StackExchange.Redis;

var server = (await ConnectionMultiplexer.ConnectAsync(args[0])).GetDatabase();
var (events, results) = ($"sandbox:{args[1]}:events", $"sandbox:{args[1]}:results");
var last = await server.StreamRangeAsync(events, count: 1, messageOrder: Order.Descending);
RedisValue position = last.Length > 0 ? last[0].Id : "0"; // what is there belongs to earlier steps
await server.ListLeftPushAsync($"sandbox:{args[1]}:in", JsonSerializer.Serialize(
    new { schemaVersion = 1, stepId = Guid.NewGuid(), command = args[2], args = args[3..] }));

RedisValue result;
do { // a step's events are there before its result: so the last look comes after it
    result = await server.ListRightPopAsync(results);
    foreach (var entry in await server.StreamReadAsync(events, position)) {
        using var data = JsonDocument.Parse(entry["data"].ToString());
        var kind = data.RootElement.GetProperty("kind").GetString();
        if (kind is "stdout" or "stderr")
            (kind == "stdout" ? Console.Out : Console.Error).WriteLine(data.RootElement.GetProperty("line").GetString());
        position = entry.Id;
    }
    if (result.IsNull) await Task.Delay(50); // this library has no commands that block
} while (result.IsNull);

using var answer = JsonDocument.Parse(result.ToString());
var code = answer.RootElement.GetProperty("exitCode").GetInt32();
if (code == -1) Console.Error.WriteLine(answer.RootElement.GetProperty("errorMessage").GetString());
return code & 255;
