#include "agent/engine/outcome.h"

#include <string.h>
#include <sys/wait.h>

#include "agent/kinds/kind.h"
#include "base/signal_name.h"

/* A command's output is shown however it ended; the content of another kind only when it is
 * complete. */
static void set_content(struct step_result *result, const struct step *step,
                        const struct capture *capture) {
  const struct kind *kind = kind_of(step);
  if (kind->work != NULL && result->exit_code != 0)
    return;
  result->output_content = capture_head(capture, &result->output_content_length);
  if (result->output_content_length == 0)
    result->output_content = kind->has_content ? "" : NULL;
}

/* Returns true when the end of the output, if there is any, is the error message. */
static bool set_exit_code(struct step_result *result, const struct step *step,
                          const struct process_outcome *outcome, struct error *reason) {
  result->exit_code = -1;
  if (outcome == NULL || outcome->end == PROCESS_STOPPED)
    return false;
  if (outcome->end == PROCESS_NOT_STARTED) {
    *reason = outcome->reason;
    return false;
  }
  int status = outcome->status;
  if (outcome->end == PROCESS_TIMED_OUT) {
    result->timed_out = true;
    (void)error_set(reason, "timed out after %us", step->timeout_seconds);
    return false;
  }
  if (WIFSIGNALED(status)) {
    result->exit_code = 128 + WTERMSIG(status);
    (void)error_set(reason, "killed by signal %d (%s)", WTERMSIG(status),
                    signal_name(WTERMSIG(status)));
  } else {
    result->exit_code = WEXITSTATUS(status);
    (void)error_set(reason, "exited with code %d and wrote nothing", result->exit_code);
  }
  return true;
}

void outcome_result(struct step_result *result, const struct step *step,
                    const struct process_outcome *outcome, const struct capture *capture,
                    struct error *reason) {
  *result = (struct step_result){.schema_version = step_answer_version(step),
                                 .step_id = step->step_id,
                                 .duration_ms = outcome != NULL ? outcome->duration_ms : 0};
  bool output_explains = set_exit_code(result, step, outcome, reason);
  set_content(result, step, capture);
  if (result->exit_code == 0)
    return;
  if (output_explains)
    result->error_message = capture_tail(capture, &result->error_message_length);
  if (result->error_message_length == 0) {
    result->error_message = reason->text;
    result->error_message_length = strlen(reason->text);
  }
}
