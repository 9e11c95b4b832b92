#include "tests/support/gate.h"

#include "tests/test.h"

enum { GATES_MAX = 1024 };

static int gates[GATES_MAX];
static int gate_count;

void gate_open(const char *path) {
  assert_true(gate_count < GATES_MAX);
  assert_true(mkfifo(path, 0666) == 0 || errno == EEXIST);
  int gate = open(path, O_RDWR | O_CLOEXEC);
  assert_true(gate >= 0);
  gates[gate_count++] = gate;
}

void gate_close_all(void) {
  while (gate_count > 0)
    close(gates[--gate_count]);
}
