#include "tests/support/agent_process.h"

#include <elf.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/support/container.h"
#include "tests/support/proc.h"
#include "tests/support/redis_server.h"
#include "tests/test.h"

struct capture {
  int fd; /* a file in memory */
  char *text;
};

struct agent_process {
  pid_t pid;
  bool running;
  int status; /* from waitpid, after it has ended */
  struct capture log;
  struct capture output;
};

const char *agent_process_program(void) {
  const char *program = getenv("AGENT");
  return program == NULL || *program == '\0' ? "build/agent" : program;
}

const char *agent_process_short_idle(void) {
  const char *program = getenv("AGENT_SHORT_IDLE");
  if (program == NULL || *program == '\0')
    fail_msg("AGENT_SHORT_IDLE names no program");
  return program;
}

bool agent_process_is_shipped(void) {
  Elf64_Ehdr header;
  int fd = open(agent_process_program(), O_RDONLY | O_CLOEXEC);
  bool shipped = fd >= 0 && read(fd, &header, sizeof header) == (ssize_t)sizeof header &&
                 memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
  for (size_t i = 0; shipped && i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    off_t offset = (off_t)(header.e_phoff + i * sizeof segment);
    shipped = pread(fd, &segment, sizeof segment, offset) == (ssize_t)sizeof segment &&
              segment.p_type != PT_INTERP;
  }
  if (fd >= 0)
    close(fd);
  return shipped;
}

static void set_environment(const char *const *more) {
  static const char *const read_by_agent[] = {"REDIS_URL",
                                              "JOB_ID",
                                              "AGENTSMITH_RUN_ID",
                                              "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES",
                                              "SANDBOX_JOB_ID",
                                              "SANDBOX_STEP_ID",
                                              "REDIS_CACERT",
                                              "REDIS_CACERTDIR",
                                              "REDIS_CERT",
                                              "REDIS_KEY",
                                              "REDIS_SNI",
                                              "SSL_CERT_FILE",
                                              "SSL_CERT_DIR",
                                              "SANDBOX_HTTP",
                                              "SANDBOX_HTTP_KEY",
                                              "SANDBOX_FENCE",
                                              "SANDBOX_LIMITS",
                                              "SANDBOX_ALLOW_COMMANDS",
                                              "SANDBOX_DENY_COMMANDS"};
  for (size_t i = 0; i < sizeof read_by_agent / sizeof *read_by_agent; i++)
    unsetenv(read_by_agent[i]);
  const char *authority = redis_server_authority();
  if (authority != NULL)
    setenv("SSL_CERT_FILE", authority, 1);
  for (; more != NULL && *more != NULL; more++) {
    char *assignment = strdup(*more); /* putenv keeps it; exec drops it */
    if (assignment == NULL || putenv(assignment) != 0)
      _exit(AGENT_PROCESS_NO_START);
  }
}

static void die(const char *what) {
  dprintf(STDERR_FILENO, "test harness: %s: %s\n", what, strerror(errno));
  _exit(AGENT_PROCESS_NO_START);
}

/* Runs in the child, between fork and exec. */
static void exec_agent(const struct agent_setup *setup) {
  const char *name = setup->program != NULL ? setup->program : agent_process_program();
  const char *arguments[32] = {name};
  for (size_t i = 0; setup->arguments != NULL && setup->arguments[i] != NULL && i < 30; i++)
    arguments[i + 1] = setup->arguments[i];
  int program = open(name, O_PATH | O_CLOEXEC);
  if (program < 0)
    die(name);
  /* So that two calls can close all descriptors above stdio except the inherited one. */
  int high = fcntl(program, F_DUPFD_CLOEXEC, 1000);
  unsigned kept = setup->inherited_fd > 0 ? (unsigned)setup->inherited_fd : 3;
  if (kept > 3)
    close_range(3, kept - 1, 0);
  close_range(setup->inherited_fd > 0 ? kept + 1 : 3, (unsigned)high - 1, 0);
  if (setup->directory != NULL && chdir(setup->directory) != 0)
    die(setup->directory);
  if (setup->root != NULL && (chroot(setup->root) != 0 || chdir("/") != 0))
    die(setup->root);
  if (setup->uid != 0 &&
      (setgroups(0, NULL) != 0 || setgid(setup->uid) != 0 || setuid(setup->uid) != 0))
    die("setuid");
  bool restricted = setup->container != NULL && setup->container->restricted;
  if (restricted && !container_restrict())
    die("container");
  set_environment(setup->environment);
  signal(SIGPIPE, SIG_DFL);
  char **argv = (char **)(uintptr_t)arguments;
  if (setup->prepare != NULL)
    setup->prepare(setup->prepare_context);
  if (setup->root != NULL)
    execv("/agent", argv);
  else if (setup->uid != 0 ||
           restricted) /* that user may not be able to read the path of the program */
    fexecve(high, argv, environ);
  else
    execv(name, argv);
  die("exec");
}

struct agent_process *agent_process_start(const struct agent_setup *setup) {
  struct agent_process *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->log.fd = memfd_create("stderr", MFD_CLOEXEC);
  self->output.fd = memfd_create("stdout", MFD_CLOEXEC);
  assert_true(self->log.fd >= 0 && self->output.fd >= 0);
  const struct container *container = setup->container;
  pid_t parent = container == NULL ? getpid() : 0; /* as the child sees it */
  int outer = container == NULL ? -1 : container_begin();
  self->pid = fork();
  if (container != NULL && self->pid != 0)
    container_end(outer);
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(AGENT_PROCESS_NO_START);
    dup2(self->output.fd, STDOUT_FILENO);
    dup2(self->log.fd, STDERR_FILENO);
    if (container != NULL && !container_enter(container))
      die("container");
    exec_agent(setup);
  }
  self->running = true;
  return self;
}

bool agent_process_is_running(struct agent_process *self) {
  if (self->running && waitpid(self->pid, &self->status, WNOHANG) == self->pid)
    self->running = false;
  return self->running;
}

static bool has_ended(void *context) {
  return !agent_process_is_running(context);
}

int agent_process_wait(struct agent_process *self, int bound_ms) {
  if (!wait_until(has_ended, self, bound_ms))
    agent_process_fail(self, "the agent still runs after %d ms", bound_ms);
  return WIFEXITED(self->status) ? WEXITSTATUS(self->status) : -WTERMSIG(self->status);
}

void agent_process_free(struct agent_process *self) {
  if (self == NULL)
    return;
  if (agent_process_is_running(self)) {
    proc_kill_tree(self->pid);
    waitpid(self->pid, NULL, 0);
  }
  close(self->log.fd);
  close(self->output.fd);
  free(self->log.text);
  free(self->output.text);
  free(self);
}

pid_t agent_process_pid(const struct agent_process *self) {
  return self->pid;
}

/* pread does not move the offset at which the agent writes. */
static const char *capture_read(struct capture *self) {
  struct stat file;
  assert_int_equal(fstat(self->fd, &file), 0);
  free(self->text);
  self->text = malloc((size_t)file.st_size + 1);
  assert_non_null(self->text);
  ssize_t length = pread(self->fd, self->text, (size_t)file.st_size, 0);
  assert_true(length >= 0);
  self->text[length] = '\0';
  return self->text;
}

const char *agent_process_log(struct agent_process *self) {
  return capture_read(&self->log);
}

const char *agent_process_output(struct agent_process *self) {
  return capture_read(&self->output);
}

struct log_search {
  struct agent_process *agent;
  const char *text;
};

static bool log_holds(void *context) {
  const struct log_search *search = context;
  return strstr(agent_process_log(search->agent), search->text) != NULL;
}

int agent_process_count_log(struct agent_process *self, const char *text) {
  int count = 0;
  for (const char *at = agent_process_log(self); (at = strstr(at, text)) != NULL; at++)
    count++;
  return count;
}

void agent_process_wait_log(struct agent_process *self, const char *text) {
  if (!wait_until(log_holds, &(struct log_search){self, text}, WAIT_BOUND_MS))
    agent_process_fail(self, "the log never says \"%s\"", text);
}

void agent_process_fail(struct agent_process *self, const char *format, ...) {
  char text[8192];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (self != NULL) {
    const char *log = agent_process_log(self);
    size_t length = strlen(log);
    size_t skipped = length > 6000 ? length - 6000 : 0;
    print_error("--- the agent's log%s ---\n%s\n---\n", skipped > 0 ? ", its end" : "",
                log + skipped);
  }
  fail_msg("%s", text);
  abort(); /* fail_msg does not return, but is not declared so */
}
