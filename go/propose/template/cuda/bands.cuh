// A band of a plane: VEC columns, of which a thread reads rows one below the other, and the columns beside them that its windows reach into.
constexpr int OUTS = VEC / SW, RIGHT = KW - SW - PW > 0 ? KW - SW - PW : 0;  // outputs of a thread; columns beside its own
struct Band { const T* p; int left, width, height; INDEX row; bool aligned; };  // p, left: of its first own column
