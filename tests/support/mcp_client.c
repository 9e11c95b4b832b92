#include "tests/support/mcp_client.h"
#include "tests/support/gate.h"

#include "tests/test.h"

int mcp_client_set_up(void **state) {
  struct mcp_client *self = calloc(1, sizeof *self);
  assert_non_null(self);
  directory_init(&self->directory);
  const char *transcripts = getenv("MCP_TRANSCRIPTS");
  if (transcripts != NULL && *transcripts != '\0') {
    static int number;
    self->transcript = fopen(formatted("%s/%d-%d", transcripts, (int)getpid(), ++number), "we");
    assert_non_null(self->transcript);
  }
  *state = self;
  mcp_client_start(self, NULL, NULL);
  return 0;
}

int mcp_client_tear_down(void **state) {
  struct mcp_client *self = *state;
  stdio_host_free(self->host);
  for (size_t i = 0; i < self->line_count; i++)
    free(self->lines[i]);
  free((void *)self->lines);
  free(self->sent);
  if (self->transcript != NULL)
    fclose(self->transcript);
  directory_release(&self->directory);
  free(self);
  return 0;
}

static void record(struct mcp_client *self, const char *mark, const char *text, size_t length) {
  if (self->transcript != NULL)
    fprintf(self->transcript, "%s%.*s\n", mark, (int)length, text);
}

void mcp_client_end_transcript(struct mcp_client *self) {
  record(self, "= ", "end", strlen("end"));
  if (self->transcript != NULL)
    fclose(self->transcript);
  self->transcript = NULL;
}

/* Records bytes that begin or end within a line; a line is recorded as a whole. */
static void record_sent(struct mcp_client *self, const char *bytes, size_t length) {
  if (self->transcript == NULL)
    return;
  self->sent = realloc(self->sent, self->sent_length + length);
  assert_non_null(self->sent);
  memcpy(self->sent + self->sent_length, bytes, length);
  self->sent_length += length;
  for (const char *end; (end = memchr(self->sent, '\n', self->sent_length)) != NULL;) {
    size_t line = (size_t)(end - self->sent);
    record(self, "> ", self->sent, line);
    self->sent_length -= line + 1;
    memmove(self->sent, end + 1, self->sent_length);
  }
}

void mcp_client_start(struct mcp_client *self, const char *flag, const char *other) {
  const char *const arguments[] = {flag != NULL ? flag : "--mcp", other, NULL};
  stdio_host_free(self->host);
  self->first = self->next = self->line_count;
  self->sent_length = 0;
  record(self, "= ", "start", strlen("start"));
  self->host = stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments, .directory = self->directory.path});
}

/* --- to the agent; if it does not read, its log says why -------------------------------------- */

void mcp_client_send_bytes(struct mcp_client *self, const char *bytes, size_t length) {
  record_sent(self, bytes, length);
  (void)stdio_host_offer(self->host, bytes, length);
}

void mcp_client_send(struct mcp_client *self, const char *json) {
  json = quoted(json);
  size_t length = strlen(json);
  char *line = malloc(length + 1);
  assert_non_null(line);
  memcpy(line, json, length);
  line[length] = '\n';
  record(self, "> ", json, length);
  (void)stdio_host_offer(self->host, line, length + 1);
  free(line);
}

void mcp_client_end_input(struct mcp_client *self) {
  if (self->sent_length > 0)
    record_sent(self, "\n", 1);
  stdio_host_close_input(self->host);
}

void mcp_client_initialize(struct mcp_client *self, const char *version) {
  mcp_client_send(self, formatted("{'method':'initialize','params':{'protocolVersion':'%s',"
                                  "'capabilities':{'roots':{}},'clientInfo':{'name':'test',"
                                  "'version':'1'}},'jsonrpc':'2.0','id':0}",
                                  version));
  mcp_client_send(self, "{'method':'notifications/initialized','jsonrpc':'2.0'}");
  mcp_client_expect_part(self, formatted("'id':0,'result':{'protocolVersion':'%s'", version));
}

void mcp_client_call_tool(struct mcp_client *self, int id, const char *tool,
                          const char *arguments) {
  mcp_client_send(self, formatted("{'jsonrpc':'2.0','id':%d,'method':'tools/call','params':{"
                                  "'name':'%s','arguments':{%s}}}",
                                  id, tool, arguments));
}

void mcp_client_call(struct mcp_client *self, int id, const char *script, bool progress) {
  const char *token = progress ? formatted(",'_meta':{'progressToken':'%d'}", id) : "";
  mcp_client_send(self, formatted("{'jsonrpc':'2.0','id':%d,'method':'tools/call','params':{"
                                  "'name':'execute_command','arguments':{'command':'%s',"
                                  "'timeout':600}%s}}",
                                  id, script, token));
}

/* --- from it ---------------------------------------------------------------------------------- */

/* Reads one more line; returns false at the end. */
static bool read_line(struct mcp_client *self) {
  const char *line = self->host->out < 0 ? NULL : stdio_host_line(self->host);
  if (line == NULL)
    return false;
  if (self->line_count % 64 == 0)
    self->lines =
        (char **)realloc((void *)self->lines, (self->line_count + 64) * sizeof *self->lines);
  assert_non_null(self->lines);
  record(self, "< ", line, strlen(line));
  self->lines[self->line_count++] = strdup(line);
  return true;
}

const char *mcp_client_line(struct mcp_client *self) {
  if (self->next == self->line_count && !read_line(self))
    return NULL;
  return self->lines[self->next++];
}

void mcp_client_expect(struct mcp_client *self, const char *json) {
  const char *line = mcp_client_line(self);
  if (line == NULL)
    fail_msg("the end, not %s; log: %s", json, stdio_host_log(self->host));
  assert_string_equal(line, quoted(json));
}

const char *mcp_client_expect_part(struct mcp_client *self, const char *part) {
  const char *line = mcp_client_line(self);
  if (line == NULL || strstr(line, quoted(part)) == NULL)
    fail_msg("`%.2000s` should have %s; log: %s", line != NULL ? line : "(end)", part,
             stdio_host_log(self->host));
  return line;
}

cJSON *mcp_client_answer(struct mcp_client *self, int id) {
  const char *begin = quoted(formatted("{'jsonrpc':'2.0','id':%d,", id));
  for (size_t i = self->first;; i++) {
    if (i == self->line_count && !read_line(self))
      fail_msg("no answer to %d; log: %s", id, stdio_host_log(self->host));
    if (strncmp(self->lines[i], begin, strlen(begin)) == 0) {
      cJSON *answer = cJSON_Parse(self->lines[i]);
      assert_non_null(answer);
      self->next = i < self->next ? self->next : i + 1;
      return answer;
    }
  }
}

void mcp_client_expect_called(struct mcp_client *self, int id, const char *text, bool is_error) {
  cJSON *answer = mcp_client_answer(self, id);
  const cJSON *result = cJSON_GetObjectItem(answer, "result");
  const cJSON *content = cJSON_GetObjectItem(result, "content");
  const char *found = cJSON_GetStringValue(cJSON_GetObjectItem(content->child, "text"));
  assert_int_equal(cJSON_GetArraySize(content), 1);
  if (found == NULL || strcmp(found, text) != 0)
    fail_msg("call %d: `%.1000s`, not `%.1000s`; log: %s", id, found, text,
             stdio_host_log(self->host));
  assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(result, "isError")), is_error);
  cJSON_Delete(answer);
}

void mcp_client_sync(struct mcp_client *self) {
  static int number;
  const char *id = formatted("'sync-%d'", ++number);
  mcp_client_send(self, formatted("{'jsonrpc':'2.0','id':%s,'method':'ping'}", id));
  const char *part = quoted(formatted("'id':%s,'result':{}}", id));
  for (const char *line; (line = mcp_client_line(self)) != NULL;)
    if (strstr(line, part) != NULL)
      return;
  fail_msg("no answer to a ping; log: %s", stdio_host_log(self->host));
}

int mcp_client_count(const struct mcp_client *self, const char *part) {
  int count = 0;
  part = quoted(part);
  for (size_t i = 0; i < self->line_count; i++)
    count += strstr(self->lines[i], part) != NULL;
  return count;
}

int mcp_client_exit(struct mcp_client *self) {
  while (read_line(self))
    continue;
  return stdio_host_wait(self->host);
}

/* --- files ------------------------------------------------------------------------------------ */

struct awaited {
  const struct mcp_client *client;
  const char *name;
};

static bool is_there(void *context) {
  const struct awaited *self = context;
  return mcp_client_has_file(self->client, self->name);
}

void mcp_client_await_file(struct mcp_client *self, const char *name) {
  struct awaited awaited = {self, name};
  if (!wait_until(is_there, &awaited, WAIT_BOUND_MS))
    fail_msg("no file %s; log: %s", name, stdio_host_log(self->host));
}

void mcp_client_open_gate(struct mcp_client *self, const char *name) {
  gate_open(directory_path(&self->directory, name));
}

bool mcp_client_has_file(const struct mcp_client *self, const char *name) {
  return directory_has(&self->directory, name);
}
