// The part of the normal distribution above y >= 0: 16 intervals of 3/8, in each a polynomial about its middle; absolute error 2^-26, for half
// types 2^-22. Below 0 the distribution is this very number, so that nothing cancels there.
#if KF_LANES == 16
alignas(64) static const float ABOVE[7][16] = {
    {0x1.b3d97cp-2f, 0x1.25c5e4p-2f, 0x1.64dd8ep-3f, 0x1.83cab6p-4f, 0x1.76d04ep-5f, 0x1.40cccep-6f,
     0x1.e49cecp-8f, 0x1.42297ap-9f, 0x1.7832e6p-11f, 0x1.812f0ep-13f, 0x1.595676p-15f, 0x1.0ed0e2p-17f,
     0x1.733238p-20f, 0x1.bc4ed8p-23f, 0x1.d02496p-26f, 0x1.a6f20ep-29f},
    {-0x1.91661p-2f, -0x1.5cbdcp-2f, -0x1.073e62p-2f, -0x1.594762p-3f, -0x1.8977cap-4f, -0x1.858fbcp-5f,
     -0x1.4f18bap-6f, -0x1.f4dda2p-8f, -0x1.4536f2p-9f, -0x1.6eec9p-11f, -0x1.67acb6p-13f, -0x1.325126p-15f,
     -0x1.c54df6p-18f, -0x1.236966p-20f, -0x1.4585fep-23f, -0x1.3bed2ep-26f},
    {0x1.2d0c8ap-5f, 0x1.885578p-4f, 0x1.ed94f8p-4f, 0x1.c52db2p-4f, 0x1.4bfd12p-4f, 0x1.91bc3cp-5f,
     0x1.986624p-6f, 0x1.602bd8p-7f, 0x1.0327c8p-8f, 0x1.46caacp-10f, 0x1.620df4p-12f, 0x1.4a3f5ep-14f,
     0x1.099b8p-16f, 0x1.70d0f4p-19f, 0x1.ba8146p-22f, 0x1.cb1338p-25f},
    {0x1.022fcep-4f, 0x1.3ddc9cp-5f, 0x1.541272p-8f, -0x1.4cad4ap-6f, -0x1.e4a848p-6f, -0x1.a689p-6f,
     -0x1.13fac4p-6f, -0x1.206d62p-7f, -0x1.f081c4p-9f, -0x1.657b22p-10f, -0x1.b2b154p-12f, -0x1.c122dcp-14f,
     -0x1.8c046cp-16f, -0x1.2aeae8p-18f, -0x1.8334c4p-21f, -0x1.af2a7ep-24f},
    {-0x1.298306p-7f, -0x1.5ef232p-6f, -0x1.5cf93cp-6f, -0x1.81ea38p-7f, -0x1.0dd106p-10f, 0x1.4fd0eap-8f,
     0x1.906c8ap-8f, 0x1.20352ap-8f, 0x1.354594p-9f, 0x1.07ece6p-10f, 0x1.70eaa6p-12f, 0x1.ad3b3cp-14f,
     0x1.a3e28p-16f, 0x1.5baa48p-18f, 0x1.e9a432p-21f, 0x1.264488p-23f},
    {-0x1.28931cp-7f, -0x1.bdcb14p-9f, 0x1.9fe11cp-9f, 0x1.8f1c1ep-8f, 0x1.386eeep-8f, 0x1.ceae7p-10f,
     -0x1.c85b0ap-12f, -0x1.2bd6c6p-10f, -0x1.e9cd52p-11f, -0x1.0da938p-11f, -0x1.c62842p-13f, -0x1.32b8c6p-14f,
     -0x1.544d9ap-16f, -0x1.3a8144p-18f, -0x1.e8a69cp-21f, -0x1.411aacp-23f},
    {0x1.84a2c2p-10f, 0x1.9d0a26p-9f, 0x1.30d622p-9f, 0x1.ec90b6p-13f, -0x1.3954dcp-10f, -0x1.4f7d0ep-10f,
     -0x1.4b6a94p-11f, -0x1.9cad24p-15f, 0x1.7a7af4p-13f, 0x1.63f79p-13f, 0x1.8baf8ep-14f, 0x1.4338a2p-15f,
     0x1.9f46f4p-17f, 0x1.b0fe9ap-19f, 0x1.74e8e8p-21f, 0x1.0c402cp-23f},
};
alignas(64) static const float ABOVE_HALF[5][16] = {
    {0x1.b3d97cp-2f, 0x1.25c5e4p-2f, 0x1.64dd9p-3f, 0x1.83cab6p-4f, 0x1.76d04ep-5f, 0x1.40ccccp-6f,
     0x1.e49ce8p-8f, 0x1.42297ap-9f, 0x1.7832eep-11f, 0x1.812f2ep-13f, 0x1.5956bcp-15f, 0x1.0ed154p-17f,
     0x1.73336p-20f, 0x1.bc514p-23f, 0x1.d028bcp-26f, 0x1.a6f804p-29f},
    {-0x1.916524p-2f, -0x1.5cbd68p-2f, -0x1.073eb4p-2f, -0x1.59489ep-3f, -0x1.8979b8p-4f, -0x1.85912ap-5f,
     -0x1.4f1806p-6f, -0x1.f4d63ap-8f, -0x1.452ad6p-9f, -0x1.6ed1e6p-11f, -0x1.677fcep-13f, -0x1.32147ep-15f,
     -0x1.c4c75ep-18f, -0x1.22ed04p-20f, -0x1.44c4bap-23f, -0x1.3aef2ep-26f},
    {0x1.2d0a62p-5f, 0x1.88532cp-4f, 0x1.ed9346p-4f, 0x1.c52d86p-4f, 0x1.4bfdf2p-4f, 0x1.91be1ap-5f,
     0x1.9867fcp-6f, 0x1.602c22p-7f, 0x1.0325aep-8f, 0x1.46c2cp-10f, 0x1.61fc5ap-12f, 0x1.4a229ap-14f,
     0x1.09768ap-16f, 0x1.7083e4p-19f, 0x1.b9fc88p-22f, 0x1.ca544p-25f},
    {0x1.008ebep-4f, 0x1.3ca328p-5f, 0x1.5d35c4p-8f, -0x1.484accp-6f, -0x1.e1399p-6f, -0x1.a543acp-6f,
     -0x1.144afcp-6f, -0x1.221308p-7f, -0x1.f5e356p-9f, -0x1.6b67f8p-10f, -0x1.bcabf6p-12f, -0x1.ce9d7ap-14f,
     -0x1.9af8d4p-16f, -0x1.38bd16p-18f, -0x1.98ae16p-21f, -0x1.cb6356p-24f},
    {-0x1.26f332p-7f, -0x1.5c393p-6f, -0x1.5af6d2p-6f, -0x1.818252p-7f, -0x1.1e57p-10f, 0x1.4b64a4p-8f,
     0x1.8e3d48p-8f, 0x1.2009a4p-8f, 0x1.3684ecp-9f, 0x1.0a4598p-10f, 0x1.762216p-12f, 0x1.b5c0fap-14f,
     0x1.aed59ep-16f, 0x1.6714fep-18f, 0x1.fd4e7ap-21f, 0x1.3469eap-23f},
};
#endif
KF_INLINE kf_f32 above(kf_f32 y) {
#if KF_LANES == 16
  kf_f32 at = y < 6.0f ? y : kf_f32{} + 5.9f;
  kf_i32 i = kf_int(at * (8.0f / 3.0f));
  kf_f32 t = kf_fma(__builtin_convertvector(i, kf_f32), kf_f32{} - 0.375f, at) - 0.1875f, p = {};
  for (int k = HALF ? 4 : 6; k >= 0; --k)
    p = kf_fma(p, t, (kf_f32)_mm512_permutexvar_ps((__m512i)i, _mm512_load_ps(HALF ? ABOVE_HALF[k] : ABOVE[k])));
  return y < 6.0f ? p : kf_f32{};
#else
  return 0.5f - 0.5f * kf_erf(y * 0x1.6a09e6p-1f);
#endif
}
