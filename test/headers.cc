// A program must have a source. This one is there for the headers that all tests share (CMakeLists.txt).
int main() { return 0; }
