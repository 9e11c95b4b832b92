#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/test.h"

struct redis_server {
  pid_t pid; /* 0 while it does not run */
  int port;
  int tls_port;                            /* 0: none */
  const struct certificates *certificates; /* NULL: no TLS */
  char directory[PATH_MAX];
  char socket[PATH_MAX + 16];
  char log[PATH_MAX + 16];
  char config[PATH_MAX + 16]; /* empty: none */
  const char *const *extra;
};

/* If another process takes the port first, the server is started again. */
int redis_server_free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 ||
      getsockname(fd, (struct sockaddr *)&address, &length) != 0)
    fail_msg("no free port on the loopback");
  close(fd);
  return ntohs(address.sin_port);
}

enum { ARGUMENTS_MAX = 127 };

static bool has_user(void) {
  const char *wanted = getenv("TEST_REDIS_ACL");
  return wanted != NULL && strcmp(wanted, "1") == 0;
}

const char *redis_server_login(void) {
  return has_user() ? REDIS_USER_LOGIN : "";
}

/* The directory of the certificates; NULL: without TLS. */
static const char *tls_directory(void) {
  const char *directory = getenv("TEST_REDIS_TLS");
  return directory != NULL && *directory != '\0' ? directory : NULL;
}

const char *redis_server_scheme(void) {
  return tls_directory() != NULL ? "rediss" : "redis";
}

/* Agents do not log in to a sentinel as this user. */
static void add_user(const struct redis_server *self, const char **arguments, size_t count) {
  size_t rules = 0;
  if (!has_user() || self->config[0] != '\0')
    return;
  arguments[count++] = "--user";
  arguments[count++] = REDIS_USER;
  for (char **rule = redis_server_user_rules(&rules); rules > 0 && count < ARGUMENTS_MAX - 2;
       rules--)
    arguments[count++] = *rule++;
  arguments[count++] = "~agentsmith:runs:active"; /* docs/drop-in.md adds these two, for --run-id */
  arguments[count++] = "+sismember";
}

const char *redis_server_authority(void) {
  static char path[PATH_MAX];
  if (tls_directory() == NULL)
    return NULL;
  (void)snprintf(path, sizeof path, "%s/ca.pem", tls_directory());
  return path;
}

/* Adds the options of TLS, beside the plain port, or with TEST_REDIS_TLS instead of it, also for
   replicas, sentinels and other nodes. Returns the new count; the texts live until exec. */
static size_t add_tls(const struct redis_server *self, const char **arguments, size_t count) {
  static char port[16], certificate[PATH_MAX], key[PATH_MAX], authority[PATH_MAX];
  bool is_own = self->certificates != NULL;
  const char *directory = is_own ? certificates_path(self->certificates, "") : tls_directory();
  if (directory == NULL)
    return count;
  (void)snprintf(port, sizeof port, "%d", is_own ? self->tls_port : self->port);
  (void)snprintf(certificate, sizeof certificate, "%s/server.pem", directory);
  (void)snprintf(key, sizeof key, "%s/server.key", directory);
  (void)snprintf(authority, sizeof authority, "%s/ca.pem", directory);
  const char *const tls[] = {
      "--tls-port",         port,      "--tls-cert-file",    certificate, "--tls-key-file", key,
      "--tls-ca-cert-file", authority, "--tls-auth-clients", "no",        "--port",         "0",
      "--tls-replication",  "yes",     "--tls-cluster",      "yes"};
  size_t added = sizeof tls / sizeof *tls - (is_own ? 6 : 0);
  memcpy(arguments + count, tls, added * sizeof *tls);
  return count + added;
}

/* Large pages for large payloads, if the machine has them: to touch 200 MiB in small pages takes a
   busy machine half a minute. Debian's allocator reads the first name, Redis' own allocator the
   second. */
static void use_large_pages(void) {
  setenv("MALLOC_CONF", "thp:always", 1);
  setenv("JE_MALLOC_CONF", "thp:always", 1);
}

static void exec_server(const struct redis_server *self) {
  const char *program = getenv("REDIS_SERVER");
  char port[16];
  snprintf(port, sizeof port, "%d", self->port);
  const char *arguments[ARGUMENTS_MAX + 1] = {program == NULL || *program == '\0' ? "redis-server"
                                                                                  : program,
                                              self->config,
                                              "--port",
                                              port,
                                              "--bind",
                                              "127.0.0.1",
                                              "--unixsocket",
                                              self->socket,
                                              "--unixsocketperm",
                                              "777",
                                              "--dir",
                                              self->directory,
                                              "--save",
                                              "",
                                              "--appendonly",
                                              "no",
                                              "--disable-thp",
                                              "no"};
  const char **first = arguments;
  if (self->config[0] == '\0')
    *++first = arguments[0];
  size_t count = 0;
  while (arguments[count] != NULL)
    count++;
  count = add_tls(self, arguments, count);
  for (const char *const *extra = self->extra;
       extra != NULL && *extra != NULL && count < ARGUMENTS_MAX / 2;)
    arguments[count++] = *extra++;
  add_user(self, arguments, count);
  int log = open(self->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
  int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close_range(3, ~0U, 0);
  setenv("LC_ALL", "C", 1); /* Redis 8 does not start in a locale that is not installed */
  use_large_pages();
  execvp(*first, (char **)(uintptr_t)first);
  perror(*first);
  _exit(127);
}

static bool has_ended(struct redis_server *self) {
  if (self->pid != 0 && waitpid(self->pid, NULL, WNOHANG) == self->pid)
    self->pid = 0;
  return self->pid == 0;
}

/* True if the server answers, or has exited. A request for a password is an answer. */
static bool answers_or_ended(void *context) {
  struct redis_server *self = context;
  if (has_ended(self))
    return true;
  redisContext *redis = redisConnectUnixWithTimeout(self->socket, (struct timeval){.tv_sec = 1});
  bool ready = false;
  if (redis != NULL && redis->err == 0) {
    redisSetTimeout(redis, (struct timeval){.tv_sec = 5});
    redisReply *reply = redisCommand(redis, "PING");
    ready = reply != NULL &&
            (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "LOADING", 7) != 0);
    freeReplyObject(reply);
  }
  redisFree(redis);
  return ready;
}

static void print_log(const struct redis_server *self) {
  FILE *log = fopen(self->log, "re");
  char line[512];
  while (log != NULL && fgets(line, sizeof line, log) != NULL)
    print_error("redis-server| %s", line);
  if (log != NULL)
    fclose(log);
}

/* Returns whether it started; false if it exited, as it does if the port is in use. */
static bool launch(struct redis_server *self) {
  pid_t parent = getpid();
  unlink(self->socket);
  self->pid = fork();
  if (self->pid < 0)
    fail_msg("fork failed");
  if (self->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
      exec_server(self);
    _exit(127);
  }
  if (!wait_until(answers_or_ended, self, WAIT_BOUND_MS)) {
    print_log(self);
    fail_msg("redis-server does not answer");
  }
  return self->pid != 0;
}

static void write_config(struct redis_server *self, const char *text) {
  snprintf(self->config, sizeof self->config, "%s/redis.conf", self->directory);
  FILE *file = fopen(self->config, "we");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static struct redis_server *start(const char *config, const struct certificates *certificates,
                                  const char *const *extra) {
  struct redis_server *self = calloc(1, sizeof *self);
  assert_non_null(self);
  const char *temporary = getenv("TMPDIR");
  snprintf(self->directory, sizeof self->directory, "%s/agent-test-XXXXXX",
           temporary == NULL || *temporary == '\0' ? "/tmp" : temporary);
  assert_non_null(mkdtemp(self->directory));
  assert_int_equal(chmod(self->directory, 0755), 0);
  snprintf(self->socket, sizeof self->socket, "%s/redis.sock", self->directory);
  snprintf(self->log, sizeof self->log, "%s/redis.log", self->directory);
  self->extra = extra;
  self->certificates = certificates;
  if (config != NULL)
    write_config(self, config);
  for (int attempt = 0; attempt < 5; attempt++) {
    self->port = redis_server_free_port();
    self->tls_port = certificates != NULL ? redis_server_free_port() : 0;
    if (launch(self))
      return self;
  }
  print_log(self);
  fail_msg("redis-server does not start");
  return NULL;
}

struct redis_server *redis_server_start(const char *const *extra) {
  return start(NULL, NULL, extra);
}

struct redis_server *redis_server_start_configured(const char *config, const char *const *extra) {
  return start(config, NULL, extra);
}

struct redis_server *redis_server_start_tls(const struct certificates *certificates,
                                            const char *const *extra) {
  return start(NULL, certificates, extra);
}

void redis_server_kill(struct redis_server *self) {
  if (self->pid == 0)
    return;
  kill(self->pid, SIGKILL);
  waitpid(self->pid, NULL, 0);
  self->pid = 0;
}

static bool launched(void *context) {
  return launch(context);
}

void redis_server_restart(struct redis_server *self) {
  /* An outgoing connection of another program may use the port for a moment. */
  if (!wait_until(launched, self, WAIT_BOUND_MS)) {
    print_log(self);
    fail_msg("redis-server does not start again");
  }
}

void redis_server_freeze(struct redis_server *self) {
  assert_int_equal(kill(self->pid, SIGSTOP), 0);
}

void redis_server_thaw(struct redis_server *self) {
  assert_int_equal(kill(self->pid, SIGCONT), 0);
}

static void remove_tree(const char *path) {
  DIR *directory = opendir(path);
  for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    char *below;
    if (asprintf(&below, "%s/%s", path, entry->d_name) < 0)
      break;
    if (entry->d_type == DT_DIR)
      remove_tree(below);
    else
      unlink(below);
    free(below);
  }
  if (directory != NULL)
    closedir(directory);
  rmdir(path);
}

void redis_server_stop(struct redis_server *self) {
  if (self == NULL)
    return;
  redis_server_kill(self);
  remove_tree(self->directory);
  free(self);
}

redisContext *redis_server_connect(const struct redis_server *self) {
  redisContext *redis = redisConnectUnixWithTimeout(self->socket, (struct timeval){.tv_sec = 5});
  if (redis == NULL || redis->err != 0)
    fail_msg("no connection to the test's own redis-server");
  redisSetTimeout(redis, (struct timeval){.tv_sec = WAIT_BOUND_MS / 1000 + 10});
  return redis;
}

int redis_server_port(const struct redis_server *self) {
  return self->port;
}

int redis_server_tls_port(const struct redis_server *self) {
  return self->tls_port;
}

const char *redis_server_directory(const struct redis_server *self) {
  return self->directory;
}

const char *redis_server_socket(const struct redis_server *self) {
  return self->socket;
}

/* --- its user --------------------------------------------------------------------------------- */

#define LINE "ACL SETUSER " REDIS_USER " "

enum { RULES_MAX = 64 };

char **redis_server_user_rules(size_t *count) {
  FILE *readme = fopen("docs/redis.md", "re");
  assert_non_null(readme);
  char line[4096] = "";
  while (strncmp(line, LINE, strlen(LINE)) != 0)
    if (fgets(line, sizeof line, readme) == NULL)
      fail_msg("docs/redis.md has no line `" LINE "…`");
  fclose(readme);
  char **rules = calloc(RULES_MAX, sizeof *rules);
  assert_non_null(rules);
  *count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(line + strlen(LINE), " \n", &rest); word != NULL;
       word = strtok_r(NULL, " \n", &rest)) {
    assert_true(*count < RULES_MAX);
    rules[(*count)++] = strdup(word);
  }
  return rules;
}

void redis_server_free_rules(char **rules, size_t count) {
  for (size_t i = 0; i < count; i++)
    free(rules[i]);
  free(rules);
}

void redis_server_make_user(redisContext *redis, const char *name, const char *without) {
  size_t count;
  char **rules = redis_server_user_rules(&count);
  const char *words[RULES_MAX + 3] = {"ACL", "SETUSER", name};
  int length = 3;
  for (size_t i = 0; i < count; i++)
    if (without == NULL || strcmp(rules[i], without) != 0)
      words[length++] = rules[i];
  redisReply *reply = redisCommandArgv(redis, length, words, NULL);
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    fail_msg("the user of docs/redis.md: %s", reply == NULL ? redis->errstr : reply->str);
  freeReplyObject(reply);
  redis_server_free_rules(rules, count);
}
