#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <cjson/cJSON.h>

#include "agent/engine/execution_result.h"
#include "agent/engine/frontend.h"
#include "agent/kinds/kind.h"
#include "agent/tools/argument.h"
#include "base/buffer.h"

/* The tools that models call: the kinds of steps under names, arguments and texts that coding
   agents commonly use (execute_command, read_file, ...). A call is one step. A frontend makes it,
   submits its request, and asks for the text of the answer when it has the result. */
struct tool_call {
  const struct tool *tool;
  struct step step; /* all zeros after tool_call_request */
  unsigned timeout; /* its time limit in seconds */
  char *target;     /* of the step: program or path, as given */
  char *directory;  /* `workdir` as given, or that of the settings */
  /* The lexical path (agent/files/access/path.h) of the file that the call changes; two paths may
     lead to one file. NULL for commands, and for calls that change nothing. */
  char *changes;
  size_t content_length;
};

struct tool {
  char name[16], title[16];
  const char *description;
  const char *hints;       /* for clients, as members of a JSON object: "readOnlyHint":true,… */
  const struct kind *kind; /* of its steps */
  const char *fields;      /* of the steps that no argument sets, as a JSON object; or NULL */
  struct argument_table arguments;
  /* Adds the text of a successful call, if that is not its output. */
  void (*answer)(const struct tool_call *call, const struct execution_result *result,
                 struct buffer *text);
};

/* Returns the tools in a fixed order, and NULL after the last one. */
const struct tool *tool_at(size_t index);
const struct tool *tool_find(const char *name);

/* Whether its steps are commands, whose streams and exit code a frontend may also show as an object
   of answer.h. */
bool tool_is_command(const struct tool *self);

/* What the calls of one frontend share. It owns nothing. */
struct tool_settings {
  struct argument_limits limits;
  const char *directory; /* absolute; paths and `workdir` are relative to it */
  const char *shell;     /* "bash" or "sh"; NULL if there is none */
  struct masker *masker; /* for parts of a call that its answer repeats; NULL masks nothing */
};

/* The beginning of a text for the model if the tool has failed. A command that was executed never
   has such a text. */
#define TOOL_ERROR "Error: "

/* Makes a call. `arguments` is an object of json_tree_parse, whose texts are moved into the step,
   or NULL; null counts as absent. If the arguments are rejected, returns NULL and adds TOOL_ERROR
   and the reason to `text`. */
struct tool_call *tool_call_new(const struct tool *tool, cJSON *arguments,
                                const struct tool_settings *settings, const char *step_id,
                                struct buffer *text);
void tool_call_free(struct tool_call *self);

/* Moves the step into the request, once. The call must outlive the execution. */
void tool_call_request(struct tool_call *self, struct request *request);

/* An image that was read; it points into the result. */
struct tool_image {
  const char *type; /* such as image/png, without a NUL */
  size_t type_length;
  const char *base64;
  size_t length;
};

/* Whether the call has read an image; its text is then only a description. */
bool tool_call_image(const struct tool_call *self, const struct execution_result *result,
                     struct tool_image *image);

/* Adds the text for the model, at most some 105,000 bytes. Returns true if the tool failed. */
bool tool_call_answer(const struct tool_call *self, const struct execution_result *result,
                      struct buffer *text);
