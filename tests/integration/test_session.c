/*
 * A coding session as a server drives it: the client here knows wire/PROTOCOL.md and nothing else
 * of the agent. It clones a repository, finds its way, mends a bug, builds, tests, and asks what
 * has changed.
 */

#include <unistd.h>

#include <cjson/cJSON.h>
#include <hiredis/hiredis.h>

#include "tests/support/agent_process.h"
#include "tests/support/redis_server.h"
#include "tests/support/tree.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* Longer than any step of the session. */
#define RESULT_SECONDS 60

struct client {
  struct redis_server *server;
  redisContext *redis;
  struct agent_process *agent;
  struct tree *tree;
  char work[64];
  int steps;
  cJSON *result; /* the last one */
};

static redisReply *ask(struct client *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = redisvCommand(self->redis, format, arguments);
  va_end(arguments);
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    fail_msg("redis: %s", reply == NULL ? self->redis->errstr : reply->str);
  return reply;
}

/* Pushes the step with a stepId and its directory, which it frees, and waits for its result. */
static void step(struct client *self, cJSON *fields) {
  char id[64];
  (void)snprintf(id, sizeof id, "11111111-1111-1111-1111-%012d", ++self->steps);
  cJSON_AddNumberToObject(fields, "schemaVersion", 1);
  cJSON_AddStringToObject(fields, "stepId", id);
  cJSON_AddStringToObject(fields, "workingDirectory", self->work);
  cJSON_AddNumberToObject(fields, "timeoutSeconds", RESULT_SECONDS);
  char *json = cJSON_PrintUnformatted(fields);
  freeReplyObject(ask(self, "LPUSH sandbox:session:in %s", json));
  redisReply *reply = ask(self, "BRPOP sandbox:session:results %d", RESULT_SECONDS);
  if (reply->type != REDIS_REPLY_ARRAY)
    agent_process_fail(self->agent, "no result of %s", json);
  cJSON_Delete(self->result);
  self->result = cJSON_Parse(reply->element[1]->str);
  assert_non_null(self->result);
  assert_string_equal(cJSON_GetObjectItem(self->result, "stepId")->valuestring, id);
  freeReplyObject(reply);
  free(json);
  cJSON_Delete(fields);
}

/* One that succeeds; its outputContent, "" for null. */
static const char *good(struct client *self, cJSON *fields) {
  step(self, fields);
  if (cJSON_GetObjectItem(self->result, "exitCode")->valueint != 0)
    agent_process_fail(self->agent, "%s", cJSON_Print(self->result));
  const cJSON *content = cJSON_GetObjectItem(self->result, "outputContent");
  return cJSON_IsNull(content) ? "" : content->valuestring;
}

static cJSON *file_step(const char *kind, const char *path) {
  cJSON *fields = cJSON_CreateObject();
  cJSON_AddStringToObject(fields, "kind", kind);
  cJSON_AddStringToObject(fields, "path", path);
  return fields;
}

static cJSON *command(const char *name, const char *const *args, int count) {
  cJSON *fields = cJSON_CreateObject();
  cJSON_AddStringToObject(fields, "kind", "run");
  cJSON_AddStringToObject(fields, "command", name);
  cJSON_AddItemToObject(fields, "args", cJSON_CreateStringArray(args, count));
  return fields;
}

static cJSON *script(const char *text) {
  return command("sh", (const char *const[]){"-c", text}, 2);
}

static int set_up(void **state) {
  struct client *self = calloc(1, sizeof *self);
  assert_non_null(self);
  void *tree;
  assert_int_equal(tree_set_up(&tree), 0);
  self->tree = tree;
  tree_make_directory(self->tree, "work", 0777);
  (void)snprintf(self->work, sizeof self->work, "%s/work", self->tree->path);
  self->server = redis_server_start(NULL);
  self->redis = redis_server_connect(self->server);
  assert_int_equal(redisSetTimeout(self->redis, (struct timeval){.tv_sec = RESULT_SECONDS + 5}),
                   REDIS_OK);
  static char url[96];
  (void)snprintf(url, sizeof url, "redis://%s127.0.0.1:%d", redis_server_login(),
                 redis_server_port(self->server));
  const char *const arguments[] = {"--redis-url", url, "--job-id", "session", NULL};
  self->agent = agent_process_start(&(struct agent_setup){.arguments = arguments});
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct client *self = *state;
  agent_process_free(self->agent);
  redisFree(self->redis);
  redis_server_stop(self->server);
  void *tree = self->tree;
  assert_int_equal(tree_tear_down(&tree), 0);
  cJSON_Delete(self->result);
  free(self);
  return 0;
}

/* What somebody has pushed to a server: a program that adds wrongly, and a test that says so. */
static void make_repository(struct client *self) {
  static const char text[] =
      "set -e; mkdir -p ../origin/src; cd ../origin\n"
      "printf 'int add(int a, int b);\\n' >src/add.h\n"
      "printf '#include \"add.h\"\\n\\nint add(int a, int b) {\\n  return a - b;\\n}\\n' "
      ">src/add.c\n"
      "printf '#include <stdio.h>\\n#include \"src/add.h\"\\n\\nint main(void) {\\n"
      "  printf(\"%%d\\\\n\", add(40, 2));\\n  return add(40, 2) == 42 ? 0 : 1;\\n}\\n' >test.c\n"
      "printf 'test: test.c src/add.c src/add.h\\n\\tcc -o test test.c src/add.c\\n\\n"
      "check: test\\n\\t./test\\n' >Makefile\n"
      "printf 'test\\n' >.gitignore\n"
      "git init -q -b main .; git add .; git -c user.name=a -c user.email=a@b commit -q -m one\n";
  (void)good(self, script(text));
}

static void expect(const char *got, const char *expected) {
  if (strstr(got, expected) == NULL)
    fail_msg("no \"%s\" in \"%s\"", expected, got);
}

static void look_around(struct client *self) {
  char full[96];
  (void)snprintf(full, sizeof full, "\"path\":\"%s/src\"", self->work);
  const char *listed = good(self, file_step("listFiles", "."));
  expect(listed, full);
  expect(listed, "/Makefile\",\"size_bytes\":");
  assert_string_equal(good(self, file_step("directoryTree", ".")),
                      "work/\n├── src/\n│   ├── add.c\n│   └── add.h\n"
                      "├── .gitignore\n├── Makefile\n└── test.c\n");
  cJSON *search = file_step("grep", ".");
  cJSON_AddStringToObject(search, "pattern", "\\badd\\(int");
  cJSON_AddStringToObject(search, "glob", "*.c");
  assert_string_equal(good(self, search),
                      "[{\"path\":\"src/add.c\",\"line\":3,"
                      "\"text\":\"int add(int a, int b) {\",\"kind\":\"match\"}]");
  cJSON *read = file_step("readFile", "src/add.c");
  cJSON_AddNumberToObject(read, "startLine", 3);
  cJSON_AddTrueToObject(read, "withLineNumbers");
  assert_string_equal(good(self, read), "3\tint add(int a, int b) {\n4\t  return a - b;\n5\t}\n");
}

static void mend(struct client *self) {
  step(self, command("make", (const char *const[]){"-s", "check"}, 2));
  assert_int_equal(cJSON_GetObjectItem(self->result, "exitCode")->valueint, 2);
  expect(cJSON_GetObjectItem(self->result, "outputContent")->valuestring, "38\n");
  cJSON *write = file_step("writeFile", "src/add.c");
  cJSON_AddStringToObject(write, "content",
                          "#include \"add.h\"\n\nint add(int a, int b) {\n  return a + b;\n}\n");
  assert_string_equal(good(self, write), "");
  assert_string_equal(good(self, command("make", (const char *const[]){"-s", "check"}, 2)), "42\n");
}

/* Every event of the last step but `started` and `completed`, as the stream has it. */
static void expect_last_events(struct client *self, const char *kind, const char *line) {
  redisReply *entries = ask(self, "XREVRANGE sandbox:session:events + - COUNT 2");
  assert_int_equal(entries->elements, 2);
  cJSON *event = cJSON_Parse(entries->element[1]->element[1]->element[1]->str);
  assert_string_equal(cJSON_GetObjectItem(event, "kind")->valuestring, kind);
  assert_string_equal(cJSON_GetObjectItem(event, "line")->valuestring, line);
  cJSON_Delete(event);
  freeReplyObject(entries);
}

TEST_OF(struct client *self, a_bug_is_found_and_mended, set_up, tear_down) {
  make_repository(self);
  (void)good(self, command("git", (const char *const[]){"clone", "-q", "../origin", "."}, 4));
  look_around(self);
  mend(self);
  const char *changed = good(self, command("git", (const char *const[]){"diff"}, 1));
  expect(changed, "--- a/src/add.c\n+++ b/src/add.c\n");
  expect(changed, "\n-  return a - b;\n+  return a + b;\n }\n");
  expect_last_events(self, "stdout", " }");
  assert_string_equal(good(self, command("git", (const char *const[]){"status", "--short"}, 2)),
                      " M src/add.c\n");
  freeReplyObject(ask(self, "LPUSH sandbox:session:in %s",
                      "{\"schemaVersion\":1,\"stepId\":\"s\",\"kind\":\"shutdown\"}"));
  assert_int_equal(agent_process_wait(self->agent, WAIT_BOUND_MS), 0);
}
