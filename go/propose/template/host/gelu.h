// The part of the normal distribution above y >= 0, absolute error 2^-26: 32 intervals of 3/16, in each a polynomial about its middle. Below 0
// the distribution is this very number, so that nothing cancels there.
KF_INLINE kf_f32 above(kf_f32 y) {
#if KF_LANES == 16
  static const float c[6][32] = {
    {0x1.d9c1fp-2f, 0x1.8e9ap-2f, 0x1.474b9p-2f, 0x1.05f8bap-2f, 0x1.98616cp-3f, 0x1.35ae88p-3f,
     0x1.c8944ap-4f, 0x1.46f688p-4f, 0x1.c69f96p-5f, 0x1.32ac96p-5f, 0x1.91424cp-6f, 0x1.fcf47cp-7f,
     0x1.38c94ep-7f, 0x1.746e3ep-8f, 0x1.ad739cp-9f, 0x1.df7272p-10f, 0x1.030e4ep-10f, 0x1.0eebbcp-11f,
     0x1.12248ap-12f, 0x1.0c5d2ap-13f, 0x1.fc37a2p-15f, 0x1.d16886p-16f, 0x1.9c2662p-17f, 0x1.60e922p-18f,
     0x1.2428bap-19f, 0x1.d3a33cp-21f, 0x1.69c67ap-22f, 0x1.0e85fep-23f, 0x1.870702p-25f, 0x1.111f7ap-26f,
     0x1.70b76cp-28f, 0x1.e10358p-30f},
    {-0x1.96b9cp-2f, -0x1.88acd2p-2f, -0x1.6e037p-2f, -0x1.49605ep-2f, -0x1.1e2acep-2f, -0x1.e0132ep-3f,
     -0x1.84c6cap-3f, -0x1.2ff6eap-3f, -0x1.cae38ep-4f, -0x1.4e6bep-4f, -0x1.d696f4p-5f, -0x1.3fa9c4p-5f,
     -0x1.a347cap-6f, -0x1.0978cap-6f, -0x1.448f32p-7f, -0x1.7f173ap-8f, -0x1.b48e9ap-9f, -0x1.e04caep-10f,
     -0x1.fe2b9ap-11f, -0x1.0596ep-11f, -0x1.02fe02p-12f, -0x1.ef201ep-14f, -0x1.c8ecfcp-15f, -0x1.971b36p-16f,
     -0x1.5e304p-17f, -0x1.22d282p-18f, -0x1.d25a8cp-20f, -0x1.68ff86p-21f, -0x1.0dca52p-22f, -0x1.855294p-24f,
     -0x1.0f33fep-25f, -0x1.6cc9fp-27f},
    {0x1.310b2cp-6f, 0x1.b9c23ap-5f, 0x1.572316p-4f, 0x1.b04e56p-4f, 0x1.e2e81ap-4f, 0x1.ef13b2p-4f,
     0x1.d9d23ep-4f, 0x1.ab733cp-4f, 0x1.6dad6p-4f, 0x1.29d824p-4f, 0x1.cf3cb8p-5f, 0x1.58a322p-5f,
     0x1.eb5846p-6f, 0x1.4ffcf4p-6f, 0x1.b932b6p-7f, 0x1.1656dcp-7f, 0x1.51a62ep-8f, 0x1.89fe9ep-9f,
     0x1.ba6946p-10f, 0x1.de36ecp-11f, 0x1.f1bedcp-12f, 0x1.f2fc9p-13f, 0x1.e1e7a6p-14f, 0x1.c0713ap-15f,
     0x1.92284ep-16f, 0x1.5b9c4ap-17f, 0x1.21a2d6p-18f, 0x1.d152cap-20f, 0x1.68662ep-21f, 0x1.0d28bp-22f,
     0x1.83b32ep-24f, 0x1.0d49acp-25f},
    {0x1.0cc454p-4f, 0x1.e226bep-5f, 0x1.7cc984p-5f, 0x1.f411aap-6f, 0x1.b7af68p-7f, -0x1.450b3p-9f,
     -0x1.f72e26p-7f, -0x1.8c2ea2p-6f, -0x1.d7232ep-6f, -0x1.e46e9p-6f, -0x1.c32292p-6f, -0x1.84dc8p-6f,
     -0x1.39fba2p-6f, -0x1.de7d44p-7f, -0x1.59be26p-7f, -0x1.db6f4p-8f, -0x1.37d256p-8f, -0x1.86e86ep-9f,
     -0x1.d506ap-10f, -0x1.0d9d4ep-10f, -0x1.2949aep-11f, -0x1.3aa11ep-12f, -0x1.3fcdf6p-13f, -0x1.385ddp-14f,
     -0x1.2550cap-15f, -0x1.08e3dp-16f, -0x1.cc4a12p-18f, -0x1.80db3ep-19f, -0x1.35bfcep-20f, -0x1.e00ed4p-22f,
     -0x1.663dep-23f, -0x1.017e36p-24f},
    {-0x1.2f7c2ap-8f, -0x1.ad315ap-7f, -0x1.3d5c3ap-6f, -0x1.718f0ap-6f, -0x1.6fb7dcp-6f, -0x1.3f2d88p-6f,
     -0x1.de1f2ap-7f, -0x1.237998p-7f, -0x1.c236ecp-9f, 0x1.0dee54p-10f, 0x1.0d56a4p-8f, 0x1.79f81cp-8f,
     0x1.97a1bap-8f, 0x1.7d3354p-8f, 0x1.42c9eep-8f, 0x1.f96196p-9f, 0x1.72115p-9f, 0x1.feabe6p-10f,
     0x1.4da30ap-10f, 0x1.9e3ce8p-11f, 0x1.e9f3fcp-12f, 0x1.149278p-12f, 0x1.2a7eccp-13f, 0x1.34599ep-14f,
     0x1.312f2p-15f, 0x1.21a258p-16f, 0x1.07c278p-17f, 0x1.cd3c4p-19f, 0x1.836464p-20f, 0x1.38b034p-21f,
     0x1.e549aap-23f, 0x1.6a286ap-24f},
    {-0x1.3f16fcp-7f, -0x1.08a7ccp-7f, -0x1.5146dp-8f, -0x1.a713b2p-10f, 0x1.d0a1f4p-10f, 0x1.1f3a92p-8f,
     0x1.7f5cecp-8f, 0x1.90eb76p-8f, 0x1.61be2ap-8f, 0x1.0a0ff6p-8f, 0x1.48804ep-9f, 0x1.18786cp-10f,
     -0x1.5e64bcp-15f, -0x1.8b07ecp-11f, -0x1.1eb32p-10f, -0x1.2dad8ep-10f, -0x1.0e50bep-10f, -0x1.b2c4dcp-11f,
     -0x1.417a26p-11f, -0x1.bafcaep-12f, -0x1.1ebd8p-12f, -0x1.5ea7bep-13f, -0x1.96a488p-14f, -0x1.c0753ap-15f,
     -0x1.d75abcp-16f, -0x1.d8f6a8p-17f, -0x1.c5aeacp-18f, -0x1.a07cbap-19f, -0x1.6e3fa8p-20f, -0x1.34c092p-21f,
     -0x1.f35d98p-23f, -0x1.839a1ep-24f},
  };
  kf_f32 at = y < 6.0f ? y : kf_f32{} + 5.9f;
  kf_i32 i = kf_int(at * (16.0f / 3.0f));
  kf_f32 t = kf_fma(__builtin_convertvector(i, kf_f32), kf_f32{} - 0.1875f, at) - 0.09375f, p = {};
  for (int k = 5; k >= 0; --k) {
    __m512 low = _mm512_loadu_ps(c[k]), high = _mm512_loadu_ps(c[k] + 16);
    p = kf_fma(p, t, (kf_f32)_mm512_permutex2var_ps(low, (__m512i)i, high));
  }
  return y < 6.0f ? p : kf_f32{};
#else
  return 0.5f - 0.5f * kf_erf(y * 0x1.6a09e6p-1f);
#endif
}
