#include "agent/process/supervisor_page.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* JSON's largest exact integer, which is above any real figure. */
#define FIGURE_MAX (INT64_C(1) << 53)

/* The largest errno of Linux. */
#define ERRNO_MAX 4095

/* -1 is an unknown figure. */
static bool is_figure(int64_t value) {
  return value >= -1 && value <= FIGURE_MAX;
}

static bool is_terminated(const char *text, size_t size) {
  return memchr(text, '\0', size) != NULL;
}
#define IS_TEXT(FIELD) is_terminated(FIELD, sizeof(FIELD))

/* Bits 8 to 15 are an exit code, or bits 0 to 6 a signal and bit 7 tells of a core file. */
static bool is_wait_status(int status) {
  if ((status & 0xFF) == 0)
    return status >= 0 && status <= 0xFF00;
  return status > 0 && status <= 0xFF && (status & 0x7F) >= 1 && (status & 0x7F) <= 0x40;
}

static bool is_failure(const struct exec_failure *self) {
  return self->stage >= EXEC_DONE && self->stage <= EXEC_REFUSED && IS_TEXT(self->reason.text) &&
         self->reason.code >= 0 && self->reason.code <= ERRNO_MAX &&
         self->reason.why <= strlen(self->reason.text);
}

static bool is_usage(const struct step_usage *self) {
  return is_figure(self->max_rss_bytes) && is_figure(self->user_us) && is_figure(self->system_us) &&
         is_figure(self->read_bytes) && is_figure(self->written_bytes) &&
         is_figure(self->major_faults) && is_figure(self->voluntary_switches) &&
         is_figure(self->involuntary_switches) && is_figure(self->processes);
}

static bool is_process(const struct step_process *self) {
  return self->pid > 0 && self->parent >= 0 && is_figure(self->rss_bytes) &&
         is_figure(self->cpu_ms) && is_figure(self->age_ms) && self->state >= ' ' &&
         self->state <= '~' && IS_TEXT(self->command) && IS_TEXT(self->wait) &&
         IS_TEXT(self->syscall);
}

/* Checks each field that the agent uses. */
static bool is_plausible(const struct supervisor_page *copy) {
  if (!is_wait_status(copy->status) || !is_failure(&copy->failure) || !is_usage(&copy->usage))
    return false;
  for (size_t i = 0; i < copy->alive_count; i++)
    if (!is_process(&copy->alive[i]))
      return false;
  return true;
}

/* After memcpy, the compiler may read the page again instead of the copy that was checked. */
static void copy_once(void *copy, const volatile void *page, size_t size) {
  const volatile char *from = page;
  for (char *to = copy; size > 0; size--)
    *to++ = *from++;
}

/* Nothing is read again afterwards, except the text of a failure. */
static bool copy_page(struct supervisor_page *copy, const struct supervisor_page *page) {
  copy_once(copy, page, SUPERVISOR_PAGE_SHORT);
  if (copy->alive_count > SUPERVISOR_ALIVE_MAX)
    return false;
  copy_once(copy->alive, page->alive, copy->alive_count * sizeof *copy->alive);
  return true;
}

void supervisor_page_reset(struct supervisor_page *self, bool waits) {
  memset(self, 0, SUPERVISOR_PAGE_SHORT);
  self->usage = (struct step_usage){.max_rss_bytes = -1, .read_bytes = -1, .written_bytes = -1};
  atomic_store(&self->gate, waits ? SUPERVISOR_GATE_CLOSED : SUPERVISOR_GATE_OPEN);
}

void supervisor_page_end(struct supervisor_page *self, int status) {
  self->usage = (struct step_usage)SUPERVISOR_UNKNOWN_USAGE;
  atomic_store(&self->left, 0);
  if (atomic_load(&self->ended) == 0)
    self->status = status;
  atomic_store(&self->ended, 1);
}

struct process_tree_census supervisor_census_read(const struct supervisor_page *page) {
  struct process_tree_census answer;
  copy_once(&answer, &page->census, sizeof answer);
  answer.holder.name[sizeof answer.holder.name - 1] = '\0';
  answer.holder.command[sizeof answer.holder.command - 1] = '\0';
  if (answer.living < -1 || answer.living > PROCESS_TREE_MAX || answer.rss_bytes < 0 ||
      answer.holder.pid < 0)
    answer = (struct process_tree_census){.living = -1};
  return answer;
}

bool supervisor_report_read(struct supervisor_report *self, const struct supervisor_page *page) {
  struct supervisor_page copy;
  const bool has_ended = atomic_load(&page->ended) != 0; /* first, because it guards the rest */
  *self = (struct supervisor_report){.status = SIGKILL, .usage = SUPERVISOR_UNKNOWN_USAGE};
  if (!copy_page(&copy, page) || !is_plausible(&copy))
    return false;
  if (has_ended) {
    self->status = copy.status;
    self->usage = copy.usage;
  }
  self->stage = copy.failure.stage;
  self->reason = copy.failure.reason;
  self->alive_count = copy.alive_count;
  if (copy.failure.stage != EXEC_DONE && copy.failure.stage != EXEC_NO_PROCESS)
    self->whole_reason =
        memory_copy(page->failure.whole, strnlen(page->failure.whole, EXEC_REASON_MAX - 1));
  if (self->alive_count > 0) {
    self->alive = memory_allocate(self->alive_count * sizeof *self->alive);
    memcpy(self->alive, copy.alive, self->alive_count * sizeof *self->alive);
  }
  return true;
}

void supervisor_report_release(struct supervisor_report *self) {
  free(self->alive);
  free(self->whole_reason);
  *self = (struct supervisor_report){0};
}
