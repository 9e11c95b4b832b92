#include "tests/support/mcp_client.h"
#include "tests/support/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/agent_process.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { READ_SIZE = 64 * 1024 };

int mcp_client_set_up(void **state) {
  struct mcp_client *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->in = self->out = self->log = -1;
  directory_init(&self->directory);
  signal(SIGPIPE, SIG_IGN);
  const char *transcripts = getenv("MCP_TRANSCRIPTS");
  if (transcripts != NULL && *transcripts != '\0') {
    static int number;
    self->transcript = fopen(formatted("%s/%d-%d", transcripts, (int)getpid(), ++number), "we");
    assert_non_null(self->transcript);
  }
  *state = self;
  return 0;
}

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

int mcp_client_tear_down(void **state) {
  struct mcp_client *self = *state;
  if (self->pid > 0)
    proc_kill_tree(self->pid);
  close_fd(&self->in);
  close_fd(&self->out);
  close_fd(&self->log);
  for (size_t i = 0; i < self->line_count; i++)
    free(self->lines[i]);
  free((void *)self->lines);
  free(self->text);
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

/* Bytes that begin or end within a line, which is recorded as a whole. */
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

static void exec_agent(const struct mcp_client *self, const char *const *arguments) {
  int program = open(arguments[0], O_PATH | O_CLOEXEC);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_DFL);
  if (chdir(self->directory.path) == 0)
    fexecve(program, (char **)(uintptr_t)arguments, environ);
  _exit(AGENT_PROCESS_NO_START);
}

void mcp_client_start(struct mcp_client *self, const char *flag, const char *other) {
  int in[2], out[2];
  close_fd(&self->in);
  close_fd(&self->out);
  close_fd(&self->log);
  self->length = 0;
  self->first = self->next = self->line_count;
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  self->log = memfd_create("log", MFD_CLOEXEC);
  const char *const arguments[] = {agent_process_program(), flag != NULL ? flag : "--mcp", other,
                                   NULL};
  self->sent_length = 0;
  record(self, "= ", "start", strlen("start"));
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    (void)dup2(in[0], STDIN_FILENO);
    (void)dup2(out[1], STDOUT_FILENO);
    (void)dup2(self->log, STDERR_FILENO);
    exec_agent(self, arguments);
  }
  close(in[0]);
  close(out[1]);
  self->in = in[1];
  self->out = out[0];
}

const char *mcp_client_log(const struct mcp_client *self) {
  static char text[8192];
  ssize_t length = pread(self->log, text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  return text;
}

/* --- to the agent ---------------------------------------------------------------------------- */

/* Whoever does not read has said why. */
static void write_all(struct mcp_client *self, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t n = write(self->in, bytes, length);
    if (n < 0)
      return;
    bytes += n;
    length -= (size_t)n;
  }
}

void mcp_client_send_bytes(struct mcp_client *self, const char *bytes, size_t length) {
  record_sent(self, bytes, length);
  write_all(self, bytes, length);
}

void mcp_client_send(struct mcp_client *self, const char *json) {
  json = quoted(json);
  size_t length = strlen(json);
  char *line = malloc(length + 1);
  assert_non_null(line);
  memcpy(line, json, length);
  line[length] = '\n';
  record(self, "> ", json, length);
  write_all(self, line, length + 1);
  free(line);
}

void mcp_client_end_input(struct mcp_client *self) {
  if (self->sent_length > 0)
    record_sent(self, "\n", 1);
  close_fd(&self->in);
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

/* --- from it --------------------------------------------------------------------------------- */

static void add_line(struct mcp_client *self, size_t length) {
  if (self->line_count % 64 == 0)
    self->lines =
        (char **)realloc((void *)self->lines, (self->line_count + 64) * sizeof *self->lines);
  char *line = strndup(self->text, length);
  assert_non_null(self->lines);
  assert_non_null(line);
  self->lines[self->line_count++] = line;
  record(self, "< ", line, length);
  self->length -= length + 1;
  memmove(self->text, self->text + length + 1, self->length);
}

/* Waits for more output; false: its end. */
static bool read_more(struct mcp_client *self) {
  struct pollfd readable = {.fd = self->out, .events = POLLIN};
  if (self->out < 0)
    return false;
  if (poll(&readable, 1, WAIT_BOUND_MS) <= 0)
    fail_msg("no more output after `%.500s`; log: %s",
             self->line_count > 0 ? self->lines[self->line_count - 1] : "", mcp_client_log(self));
  if (self->capacity - self->length < READ_SIZE) {
    self->capacity = 2 * self->capacity + READ_SIZE;
    self->text = realloc(self->text, self->capacity);
    assert_non_null(self->text);
  }
  ssize_t n = read(self->out, self->text + self->length, READ_SIZE);
  if (n <= 0)
    return false;
  self->length += (size_t)n;
  return true;
}

/* One line more; false at the end, where nothing may be left. */
static bool read_line(struct mcp_client *self) {
  size_t searched = 0;
  for (;;) {
    const char *newline = searched < self->length
                              ? memchr(self->text + searched, '\n', self->length - searched)
                              : NULL;
    if (newline != NULL) {
      add_line(self, (size_t)(newline - self->text));
      return true;
    }
    searched = self->length;
    if (!read_more(self)) {
      assert_int_equal(self->length, 0);
      return false;
    }
  }
}

const char *mcp_client_line(struct mcp_client *self) {
  if (self->next == self->line_count && !read_line(self))
    return NULL;
  return self->lines[self->next++];
}

void mcp_client_expect(struct mcp_client *self, const char *json) {
  const char *line = mcp_client_line(self);
  if (line == NULL)
    fail_msg("the end, not %s; log: %s", json, mcp_client_log(self));
  assert_string_equal(line, quoted(json));
}

const char *mcp_client_expect_part(struct mcp_client *self, const char *part) {
  const char *line = mcp_client_line(self);
  if (line == NULL || strstr(line, quoted(part)) == NULL)
    fail_msg("`%.2000s` should have %s; log: %s", line != NULL ? line : "(end)", part,
             mcp_client_log(self));
  return line;
}

cJSON *mcp_client_answer(struct mcp_client *self, int id) {
  const char *begin = quoted(formatted("{'jsonrpc':'2.0','id':%d,", id));
  for (size_t i = self->first;; i++) {
    if (i == self->line_count && !read_line(self))
      fail_msg("no answer to %d; log: %s", id, mcp_client_log(self));
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
    fail_msg("call %d: `%.1000s`, not `%.1000s`; log: %s", id, found, text, mcp_client_log(self));
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
  fail_msg("no answer to a ping; log: %s", mcp_client_log(self));
}

int mcp_client_count(const struct mcp_client *self, const char *part) {
  int count = 0;
  part = quoted(part);
  for (size_t i = 0; i < self->line_count; i++)
    count += strstr(self->lines[i], part) != NULL;
  return count;
}

static bool has_exited(void *context) {
  const struct mcp_client *self = context;
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)self->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == self->pid;
}

int mcp_client_exit(struct mcp_client *self) {
  int status;
  while (self->out >= 0 && read_line(self))
    continue;
  if (!wait_until(has_exited, self, WAIT_BOUND_MS))
    fail_msg("it still runs; log: %s", mcp_client_log(self));
  assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
  self->pid = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* --- files ----------------------------------------------------------------------------------- */

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
    fail_msg("no file %s; log: %s", name, mcp_client_log(self));
}

void mcp_client_open_gate(struct mcp_client *self, const char *name) {
  gate_open(directory_path(&self->directory, name));
}

bool mcp_client_has_file(const struct mcp_client *self, const char *name) {
  return directory_has(&self->directory, name);
}
