/* Nothing of ours: its size is that of the libraries that are linked into it. */
int main(void) {
  return 0;
}
