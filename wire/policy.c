#include "wire/policy.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/memory.h"
#include "wire/json.h"

static const struct step_choice networks[] = {
    [POLICY_NETWORK_ALL] = {"all", STEP_CHOICE_NO_NUMBER},
    [POLICY_NETWORK_PORTS] = {"ports", STEP_CHOICE_NO_NUMBER},
    [POLICY_NETWORK_LOOPBACK] = {"loopback", STEP_CHOICE_NO_NUMBER},
    [POLICY_NETWORK_NONE] = {"none", STEP_CHOICE_NO_NUMBER},
    {NULL, STEP_CHOICE_NO_NUMBER}};

static const struct step_field fence_fields[] = {
    STEP_FIELD("writePaths", paths, struct policy_fence, write_paths, .maximum = POLICY_PATHS_MAX),
    STEP_FIELD("readPaths", paths, struct policy_fence, read_paths, .maximum = POLICY_PATHS_MAX),
    STEP_FIELD("network", word, struct policy_fence, network, .choices = networks),
    STEP_FIELD("tcpConnect", ports, struct policy_fence, tcp_connect, .maximum = POLICY_PORTS_MAX),
    STEP_FIELD("tcpBind", ports, struct policy_fence, tcp_bind, .maximum = POLICY_PORTS_MAX),
    STEP_FIELD("bestEffort", flag, struct policy_fence, best_effort)};

static int check_fence(const void *place, const char *path, struct error *error) {
  const struct policy_fence *self = place;
  const char *list = self->tcp_connect.text != NULL ? "tcpConnect"
                     : self->tcp_bind.text != NULL  ? "tcpBind"
                                                    : NULL;
  if (list == NULL || self->network == POLICY_NETWORK_PORTS)
    return 0;
  return error_set(error, "%s.%s: expected only with network \"ports\", got it with \"%s\"", path,
                   list, policy_network_name(self->network));
}

const struct step_table policy_fence_table = {.fields = fence_fields,
                                              .count = sizeof fence_fields / sizeof *fence_fields,
                                              .size = sizeof(struct policy_fence),
                                              .check = check_fence};

#define LIMIT(NAME, MEMBER, MINIMUM)                                                               \
  STEP_FIELD(NAME, limit, struct policy_limits, MEMBER, .minimum = (MINIMUM))

static const struct step_field limits_fields[] = {
    LIMIT("memoryBytes", memory_bytes, 1), LIMIT("processes", processes, 1),
    LIMIT("openFiles", open_files, 1),     LIMIT("fileSizeBytes", file_size_bytes, 1),
    LIMIT("cpuSeconds", cpu_seconds, 1),   LIMIT("coreBytes", core_bytes, 0)};

const struct step_table policy_limits_table = STEP_TABLE(limits_fields, struct policy_limits);

const char *policy_network_name(enum policy_network network) {
  return networks[network].name;
}

/* Reads one object by its table, as a field of a step is read. */
static void *parse(const char *name, const struct step_table *table, const char *json,
                   struct error *error) {
  void *object = NULL;
  struct error why;
  const struct step_field field = {
      .name = name, .type = &step_field_object, .element = table, .required = true};
  cJSON *root = cJSON_CreateObject(), *value = json_tree_parse(json, strlen(json), &why);
  if (root == NULL || (value != NULL && !cJSON_AddItemToObject(root, name, value)))
    memory_exhausted("a policy");
  const int result = value != NULL ? step_field_read(&field, root, "", &object, error)
                                   : error_set(error, "%s: %s", name, why.text);
  cJSON_Delete(root);
  if (result == 0)
    return object;
  policy_free(table, object);
  return NULL;
}

static int check_absolute(const char *field, char *const *paths, struct error *error) {
  for (size_t i = 0; paths != NULL && paths[i] != NULL; i++)
    if (paths[i][0] != '/')
      return error_set(error, "%s[%zu]: expected an absolute path, got '%s'", field, i, paths[i]);
  return 0;
}

struct policy_fence *policy_parse_step_fence(const char *json, struct error *error) {
  return parse("fence", &policy_fence_table, json, error);
}

struct policy_fence *policy_parse_fence(const char *json, struct error *error) {
  struct policy_fence *self = policy_parse_step_fence(json, error);
  if (self == NULL || (check_absolute("fence.writePaths", self->write_paths, error) == 0 &&
                       check_absolute("fence.readPaths", self->read_paths, error) == 0))
    return self;
  policy_free(&policy_fence_table, self);
  return NULL;
}

struct policy_limits *policy_parse_limits(const char *json, struct error *error) {
  return parse("limits", &policy_limits_table, json, error);
}

static uint64_t smaller_limit(uint64_t one, uint64_t other) {
  return one == 0 || (other != 0 && other < one) ? other : one;
}

struct policy_limits policy_limits_merge(const struct policy_limits *agent,
                                         const struct policy_limits *step) {
  static const struct policy_limits none = {.core_bytes = POLICY_CORE_UNLIMITED};
  const struct policy_limits *one = agent != NULL ? agent : &none,
                             *other = step != NULL ? step : &none;
  return (struct policy_limits){
      .memory_bytes = smaller_limit(one->memory_bytes, other->memory_bytes),
      .processes = smaller_limit(one->processes, other->processes),
      .open_files = smaller_limit(one->open_files, other->open_files),
      .file_size_bytes = smaller_limit(one->file_size_bytes, other->file_size_bytes),
      .cpu_seconds = smaller_limit(one->cpu_seconds, other->cpu_seconds),
      .core_bytes = one->core_bytes < other->core_bytes ? one->core_bytes : other->core_bytes};
}

/* Each object of limits has a limit of core files. */
bool policy_limits_exist(const struct policy_limits *self) {
  return self->core_bytes != POLICY_CORE_UNLIMITED;
}

void policy_free(const struct step_table *table, void *policy) {
  if (policy != NULL)
    step_table_release(table, policy, true);
  free(policy);
}
