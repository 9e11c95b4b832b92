#include "tests/support/nginx.h"

#include <sys/prctl.h>

#include "tests/support/http_client.h"
#include "tests/test.h"

struct nginx {
  struct directory directory;
  char address[96];
  pid_t pid;
};

#define SHARED_CONNECTIONS "proxy_http_version 1.1; proxy_set_header Connection '';"

static const char *const modes[] = {
    [NGINX_DEFAULT] = "",
    [NGINX_KEEPALIVE] = SHARED_CONNECTIONS,
    [NGINX_UNBUFFERED] = SHARED_CONNECTIONS "proxy_request_buffering off;",
};

/* One process, whose files are all in the directory. */
static void write_config(const struct nginx *self, const char *agent, enum nginx_mode mode) {
  static const char *const kinds[] = {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"};
  const char *path = self->directory.path;
  FILE *file = fopen(directory_path(&self->directory, "nginx.conf"), "we");
  assert_non_null(file);
  fprintf(file,
          "daemon off; master_process off; pid %s/pid; error_log %s/error.log;\n"
          "events { worker_connections 64; }\n"
          "http {\n"
          "log_format seen '$upstream_addr $request';\naccess_log %s/access.log seen;\n"
          "client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 1s;\n"
          "lingering_time 1s; lingering_timeout 1s; send_timeout 1s;\n"
          "upstream agent { server unix:%s; keepalive 4; }\n"
          "server { listen unix:%s/socket; location / { proxy_pass http://agent; "
          "proxy_next_upstream off; %s } }\n",
          path, path, path, agent, path, modes[mode]);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    fprintf(file, "%s_temp_path %s;\n", kinds[i], path);
  fprintf(file, "}\n");
  assert_int_equal(fclose(file), 0);
}

static char *read_file(const struct nginx *self, const char *name) {
  int fd = open(directory_path(&self->directory, name), O_RDONLY | O_CLOEXEC);
  struct stat file = {0};
  if (fd >= 0)
    assert_int_equal(fstat(fd, &file), 0);
  char *text = calloc(1, (size_t)file.st_size + 1);
  assert_non_null(text);
  if (fd >= 0) {
    assert_int_equal(read(fd, text, (size_t)file.st_size), file.st_size);
    close(fd);
  }
  return text;
}

static bool accepts_or_ended(void *context) {
  struct nginx *self = context;
  struct http_client *client = http_client_try(self->address);
  bool accepts = client != NULL;
  http_client_free(client);
  if (!accepts && waitpid(self->pid, NULL, WNOHANG) == self->pid)
    self->pid = 0;
  return accepts || self->pid == 0;
}

struct nginx *nginx_start(const struct directory *directory, const char *agent,
                          enum nginx_mode mode) {
  struct nginx *self = calloc(1, sizeof *self);
  assert_non_null(self);
  directory_init(&self->directory);
  snprintf(self->address, sizeof self->address, "unix:%s/socket", self->directory.path);
  write_config(self, directory_path(directory, agent), mode);
  pid_t parent = getpid();
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
      execl("/usr/sbin/nginx", "nginx", "-p", self->directory.path, "-c",
            directory_path(&self->directory, "nginx.conf"), "-e",
            directory_path(&self->directory, "error.log"), (char *)NULL);
    _exit(127);
  }
  bool accepts = wait_until(accepts_or_ended, self, WAIT_BOUND_MS) && self->pid != 0;
  char *log = read_file(self, "error.log");
  if (!accepts)
    fail_msg("nginx does not start: %s", log);
  free(log);
  return self;
}

void nginx_stop(struct nginx *self) {
  if (self == NULL)
    return;
  kill(self->pid, SIGKILL);
  waitpid(self->pid, NULL, 0);
  directory_release(&self->directory);
  free(self);
}

const char *nginx_address(const struct nginx *self) {
  return self->address;
}

/* A line is the address of the agent, or "-", and the request line. */
int nginx_count_forwarded(const struct nginx *self) {
  int count = 0;
  char *log = read_file(self, "access.log"), *rest = log;
  for (const char *line; (line = strsep(&rest, "\n")) != NULL;)
    count += strncmp(line, "unix:", 5) == 0;
  free(log);
  return count;
}

int nginx_count_seen(const struct nginx *self, const char *method_and_target) {
  int count = 0;
  char *log = read_file(self, "access.log");
  const char *text = formatted(" %s HTTP/", method_and_target);
  for (const char *at = log; (at = strstr(at, text)) != NULL; at++)
    count++;
  free(log);
  return count;
}
