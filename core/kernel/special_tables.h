/* Chebyshev expansions of the smooth parts of the special functions: f(u) = sum of c[k] T_k(2u - 1) for u in
 * [0, 1]. Written by tools/fit_special.py. */
#ifndef TN_KERNEL_SPECIAL_TABLES_H
#define TN_KERNEL_SPECIAL_TABLES_H

/* exp(x^2) erfc(x) / u, u = 4 / (4 + x) */
static const double table_erfcx[] = {
    0x1.a1d12aa2b99e3p-2, 0x1.81640da73db47p-2, 0x1.2e3e9be35bb80p-3,
    0x1.961696aa87e14p-5, 0x1.d231a0d655c70p-7, 0x1.c35875e50d6e9p-9,
    0x1.65b29b3cf475cp-11, 0x1.b1b5c1f5a252cp-14, 0x1.466f92ca87aabp-17,
    -0x1.0174a6a133f01p-23, -0x1.d3079e0a0819ep-23, -0x1.04344d3c6c2bcp-25,
    0x1.0494fd49213acp-30, 0x1.daa077c106015p-31, 0x1.2e3d9a50f6625p-34,
    -0x1.2bae5cbd0194bp-36, -0x1.dd6663527f654p-39, 0x1.26838df279a75p-42,
    0x1.11174a8a377d5p-43, -0x1.30c2460a986e5p-49, -0x1.28af88d28c6b1p-48,
    -0x1.23dc4089147d6p-54, 0x1.4be1ee5d97426p-53,
};

/* exp(-x) I0(x), u = x / 8 */
static const double table_i0_near[] = {
    0x1.5a84e9035a22ap-2, -0x1.37febc057cd8dp-2, 0x1.5f7ac77ac88c0p-3,
    -0x1.84b70342d06eap-4, 0x1.93e8acea8a32dp-5, -0x1.84e9ef121b6f0p-6,
    0x1.59961f3dde3ddp-7, -0x1.1b65e201aa849p-8, 0x1.adc758a12100ep-10,
    -0x1.2e2fd1f15eb52p-11, 0x1.8b51b74107cabp-13, -0x1.e2b2659c41d5ap-15,
    0x1.13f58be9a2859p-16, -0x1.2866fcba56427p-18, 0x1.2bf24978cf4acp-20,
    -0x1.1ec638f227f8dp-22, 0x1.03b769d4d6435p-24, -0x1.beaf68c0b30abp-27,
    0x1.6d903a454cb34p-29, -0x1.1d4fe13ae9556p-31, 0x1.a98becc743c10p-34,
    -0x1.2fc957a946abcp-36, 0x1.9fe2fe19bd324p-39, -0x1.1164c62ee1af0p-41,
    0x1.59b464b262627p-44, -0x1.a5022c297fbebp-47, 0x1.ee6d893f65ebap-50,
    -0x1.184eb721ebbb4p-52, 0x1.33362977da589p-55,
};

/* exp(-x) sqrt(x) I0(x), u = 8 / x */
static const double table_i0_far[] = {
    0x1.9be62aca809cbp-2, 0x1.b998ca2e59049p-9, 0x1.20fa378999e52p-14,
    0x1.8412bc101c586p-19, 0x1.b8007d9cd616ep-23, 0x1.8569280d6d56dp-26,
    0x1.d2c64a9225b87p-29, 0x1.0f9ccc0f46f75p-31, 0x1.a24feabe8004fp-37,
    -0x1.1511d08397425p-35, -0x1.d0fd7357e7bf2p-37, -0x1.f904303178d66p-40,
    0x1.94347fa268cecp-41, 0x1.b1c8c6b83c073p-42, 0x1.156ff0d5fc545p-46,
    -0x1.75d99cf68bb32p-45, -0x1.583fe7e65629ap-47, 0x1.12a919094e6d7p-48,
    0x1.fee7da3eafb1fp-50, -0x1.8aee7d908de38p-52, -0x1.4600babd21fe4p-52,
    0x1.3f3dd076041cdp-55, 0x1.9be1812d98421p-55, -0x1.646da66119130p-58,
    -0x1.0adb754ca8b19p-57,
};

/* exp(-x) I1(x) / x, u = x / 8 */
static const double table_i1_near[] = {
    0x1.02a63724a7ffap-3, -0x1.694d10469192ep-3, 0x1.a46dad536f53cp-4,
    -0x1.b1bbc537c9ebcp-5, 0x1.951e3e7bb2349p-6, -0x1.5a29f7913a26ap-7,
    0x1.1065349d3a1b4p-8, -0x1.8cc620b3cd4a4p-10, 0x1.0c95db6c6df7dp-11,
    -0x1.533cad3d694fep-13, 0x1.911b542c70d0bp-15, -0x1.bd5f9b8debbcfp-17,
    0x1.d1c4ed511afc5p-19, -0x1.cc0798363992ap-21, 0x1.ae344b347d108p-23,
    -0x1.7dd3e24b8c3e8p-25, 0x1.4258e02395010p-27, -0x1.0361b28ea67e6p-29,
    0x1.8ea34b43fdf6cp-32, -0x1.2510397eb07dep-34, 0x1.9cee2b21d3154p-37,
    -0x1.173835fb70366p-39, 0x1.6af784779d955p-42, -0x1.c628e1c8f0b3bp-45,
    0x1.11d7f0615290cp-47, -0x1.3eaaa7e0d1573p-50, 0x1.663e3e593bfacp-53,
    -0x1.857d0c38a0576p-56,
};

/* exp(-x) sqrt(x) I1(x), u = 8 / x */
static const double table_i1_far[] = {
    0x1.8ea18b55b1514p-2, -0x1.3fda053fcdb4cp-7, -0x1.cfd7f804aa9a6p-14,
    -0x1.048df49ca0373p-18, -0x1.0dbfd2e9e5443p-22, -0x1.c415394bb46c1p-26,
    -0x1.0790b9ad53528p-28, -0x1.334ca5423dd80p-31, -0x1.4dcf9d4504c0cp-36,
    0x1.1e1a1f1587865p-35, 0x1.f101f653c457bp-37, 0x1.1e7d3f6439fa3p-39,
    -0x1.953e1076ab493p-41, -0x1.cbc458e73e255p-42, -0x1.7a9482e6d22a0p-46,
    0x1.80d3c26b3281ep-45, 0x1.776e1762d31e8p-47, -0x1.12db5138afbc7p-48,
    -0x1.0efcd8bc4d22ap-49, 0x1.7d68e5f04a2d1p-52, 0x1.55915fceb588ap-52,
    -0x1.2806c9c773320p-55, -0x1.acea3b2532277p-55, 0x1.45b8aea87b950p-58,
    0x1.1556db352e8e6p-57,
};

/* J0(x), u = (x / 8)^2 */
static const double table_j0_near[] = {
    0x1.4306e1f9314dbp-3, -0x1.1dd989ce98ea2p-7, 0x1.0f8afb7d3a552p-2,
    -0x1.7afa2e9c62a9ep-2, 0x1.43b8af58b7ffap-3, -0x1.1dd989ce98ea2p-5,
    0x1.3bd46ccab9da0p-8, -0x1.e300651cd3ae3p-12, 0x1.104c067d74d17p-15,
    -0x1.d8f811cd3e853p-20, 0x1.46c4a4b32aa3bp-24, -0x1.703bda6758f6fp-29,
    0x1.593076e904d04p-34, -0x1.1192067e71726p-39, 0x1.73936aa3d0207p-45,
    -0x1.b5729d242acaep-51, 0x1.c2c89ea282aaap-57,
};

/* J1(x) / x, u = (x / 8)^2 */
static const double table_j1_near[] = {
    0x1.4bf5ae47a6150p-4, -0x1.3119e17fdbffdp-3, 0x1.49b9fb3408e33p-3,
    -0x1.52a8c7827daa8p-4, 0x1.6bf2c1f5f71e1p-6, -0x1.de030538b55b0p-9,
    0x1.a8b56cedfe580p-12, -0x1.11188227a5012p-15, 0x1.0a8a3a628fc7bp-19,
    -0x1.98f754605f635p-24, 0x1.fac17c7273311p-29, -0x1.030d00d42d6f4p-33,
    0x1.bcc0916376113p-39, -0x1.453d2b4e985cbp-44, 0x1.9a36afedba862p-50,
    -0x1.c2dff424052f8p-56,
};

/* Y0(x) - 2/pi ln(x) J0(x), u = (x / 8)^2 */
static const double table_y0_near[] = {
    -0x1.0f88700652ecbp-5, -0x1.190fcad75eca2p-2, 0x1.6ea98ade961a1p-3,
    0x1.0bd84f7777bd6p-2, -0x1.6b1d515347a69p-3, 0x1.82a2a1c96271fp-5,
    -0x1.dd9fb881100e6p-8, 0x1.8ad9320695af0p-11, -0x1.d873fa854ed4dp-15,
    0x1.ae5f9e7adde46p-19, -0x1.35649a4058471p-23, 0x1.68b1c63f94e89p-28,
    -0x1.5c457ea1daccep-33, 0x1.1b53ed8a54178p-38, -0x1.89f1fa5209ce6p-44,
    0x1.d9b425efafdd8p-50, -0x1.f1a7711576130p-56,
};

/* (Y1(x) - 2/pi (ln(x) J1(x) - 1/x)) / x, u = (x / 8)^2 */
static const double table_y1_near[] = {
    0x1.4ca997b04b826p-9, -0x1.07927e87fd36bp-6, -0x1.88db11a1e0337p-4,
    0x1.59ea4fc627f66p-4, -0x1.d020c3798a51ap-6, 0x1.5aadc0f38e31dp-8,
    -0x1.504ea6f6291cdp-11, 0x1.cde014f53622dp-15, -0x1.dadf80f6e35f9p-19,
    0x1.7c45af600d3dcp-23, -0x1.e8a21e8e1cb71p-28, 0x1.01c33ee943bc5p-32,
    -0x1.c6f1d25aa2e2ap-38, 0x1.54fcf661706ffp-43, -0x1.b7b8e4b5d24fcp-49,
    0x1.ed24ebd671b40p-55,
};

/* P of order 0, u = (8 / x)^2 */
static const double table_p0[] = {
    0x1.ffb944543151ep-1, -0x1.194ac5283c04ap-11, 0x1.9cbe8b7395851p-19,
    -0x1.bc26938a82ce2p-25, 0x1.c03a8b38ca73cp-30, -0x1.59ddcc28538a8p-34,
    0x1.6baf23642c655p-38, -0x1.e4a709e74825bp-42, 0x1.85b481672b1eep-45,
    -0x1.6d432cb7153fep-48, 0x1.84fff80b613c2p-51, -0x1.cdb3179595bbdp-54,
    0x1.2cca86c6338d9p-56,
};

/* Q of order 0 times x / 8, u = (8 / x)^2 */
static const double table_q0[] = {
    -0x1.fdbbf76547cafp-7, 0x1.1ed40c7bf4761p-14, -0x1.8e1017183d060p-21,
    0x1.34c3b3f0f3e19p-26, -0x1.8fc71e52a5280p-31, 0x1.7334b27ad2886p-35,
    -0x1.c34f407df8ba4p-39, 0x1.52763be90a889p-42, -0x1.2c827d7f6e2d5p-45,
    0x1.329f0c1b6c666p-48, -0x1.5fa3147b301c9p-51, 0x1.bd9648f62c6b8p-54,
    -0x1.33cdb710c05d6p-56, 0x1.cab223df72976p-59, -0x1.6d757f20d1676p-61,
    0x1.351cf3ac934b3p-63,
};

/* P of order 1, u = (8 / x)^2 */
static const double table_p1[] = {
    0x1.003b2e82f5f12p0, 0x1.d7545f75d7da9p-11, -0x1.0b9505ce79bbap-18,
    0x1.0953cdc0829efp-24, -0x1.01454cf5d6ac0p-29, 0x1.83c5742be2cc3p-34,
    -0x1.9171afe32fc02p-38, 0x1.088a8b6783e50p-41, -0x1.a5ead8bea617fp-45,
    0x1.88e8192bcb004p-48, -0x1.a045d1e6aa4e8p-51, 0x1.ebf5d803cd896p-54,
    -0x1.3f5b1671b84fbp-56,
};

/* Q of order 1 times x / 8, u = (8 / x)^2 */
static const double table_q1[] = {
    0x1.7f34213492af6p-5, -0x1.93d0e4fa70662p-14, 0x1.eaa02bf61504bp-21,
    -0x1.681617e8645adp-26, 0x1.c467999a69933p-31, -0x1.9c37875f5ebc0p-35,
    0x1.eeb91abca8164p-39, -0x1.6f877e53fb185p-42, 0x1.43f8057a1761fp-45,
    -0x1.48ac416e30219p-48, 0x1.772d4dd737bf2p-51, -0x1.d994b1fddb9f0p-54,
    0x1.46123a8bbc898p-56, -0x1.e48d4f144b8b2p-59, 0x1.811d207bb2e69p-61,
};

/* K0(x) + ln(x/2) I0(x), u = (x / 2)^2 */
static const double table_k0_near[] = {
    -0x1.12166e9d2f61fp-2, 0x1.608d881213db9p-2, 0x1.26bf6554a9085p-5,
    0x1.4b82e75633d73p-10, 0x1.7f900fe8cfca0p-16, 0x1.102bce7f95efcp-22,
    0x1.05c1367e58a13p-29, 0x1.6c25c475120bep-37, 0x1.7fb0ac384a073p-45,
    0x1.3cee1e6b887dcp-53,
};

/* exp(x) sqrt(x) K0(x), u = 2 / x */
static const double table_k0_far[] = {
    0x1.385bd9f4e6907p0, -0x1.019f72d4ff71ep-5, 0x1.9b891fca79342p-10,
    -0x1.0d797e7889f42p-13, 0x1.d413fcc7470a9p-17, -0x1.ebb547f18d3a9p-20,
    0x1.2915981e3e46fp-22, -0x1.905541b54f2afp-25, 0x1.269a0033f428ep-27,
    -0x1.d29d5f22bf5e2p-30, 0x1.8956c819ff63dp-32, -0x1.5df95d2e7ca15p-34,
    0x1.46808475fbf4dp-36, -0x1.3dafc3f00540bp-38, 0x1.40fa32fcce645p-40,
    -0x1.4f87721a3b2dbp-42, 0x1.69c4ecd913e48p-44, -0x1.9145ebaf9922fp-46,
    0x1.c8d9c4a6808e8p-48, -0x1.0a690ed1130d0p-49, 0x1.3dbf96cd7929dp-51,
    -0x1.82f947bd75936p-53, 0x1.e092e5c062a6ap-55, -0x1.2feccb331b557p-56,
};

/* (K1(x) - ln(x/2) I1(x) - 1/x) / x, u = (x / 2)^2 */
static const double table_k1_near[] = {
    -0x1.06839907d1f31p-4, -0x1.bf2832e857b4ep-4, -0x1.b2f457e702521p-8,
    -0x1.60ccadcb7031bp-13, -0x1.40b8a0d61f99ap-19, -0x1.77710354340f1p-26,
    -0x1.3379309e7089ap-33, -0x1.74978aa5e27bcp-41, -0x1.5bd0a61e02e65p-49,
    -0x1.01eaef82bf2cep-57,
};

/* exp(x) sqrt(x) K1(x), u = 2 / x */
static const double table_k1_far[] = {
    0x1.5c3d7aa062c8ap0, 0x1.a9abef9e023fbp-4, -0x1.76946be66b48ap-9,
    0x1.9965888f6908ep-13, -0x1.44d711dcdb2e5p-16, 0x1.42fe31752d1b6p-19,
    -0x1.780528fada5c6p-22, 0x1.ed27c668fc461p-25, -0x1.637a49fe1e088p-27,
    0x1.14f242a73d252p-29, -0x1.ccbc00365cf5fp-32, 0x1.956d008a43059p-34,
    -0x1.76b539401d12cp-36, 0x1.69ab846c05207p-38, -0x1.6adec61fc71a4p-40,
    0x1.78ffa0409e616p-42, -0x1.94465d4c8014bp-44, 0x1.be3e9590877a3p-46,
    -0x1.f9d52362a3e00p-48, 0x1.25cedf006519fp-49, -0x1.5d2a3d9ce2a50p-51,
    0x1.a7d5e4c65543cp-53, -0x1.0661525866f5ap-54, 0x1.4af1aa55c043fp-56,
};

/* Ai(x), u = (x + 4) / 6 */
static const double table_airy_near[] = {
    0x1.f1f3ec4819acep-5, 0x1.8509e90f44409p-3, -0x1.00f252904a79ap-2,
    -0x1.859cb2312260fp-4, 0x1.9e709e91dc382p-3, -0x1.06e93e9932cfcp-4,
    -0x1.b755044f1a702p-6, 0x1.8a10ff92da9f2p-6, -0x1.0ed561fbbfbcbp-8,
    -0x1.08b9467a3bab6p-9, 0x1.26eea1891afccp-10, -0x1.eaa15d91b20f8p-14,
    -0x1.2add7734c4837p-14, 0x1.d893ec07cb5eep-16, -0x1.d84e2626fd4e8p-20,
    -0x1.87927c4edcc9fp-20, 0x1.d73cfc3c181eap-22, -0x1.f6954bbf0ae1fp-27,
    -0x1.4ef0488641af6p-26, 0x1.40454fbcb04abp-28, -0x1.c1266b05689e0p-35,
    -0x1.935fbfc926460p-33, 0x1.3b683b4e93c8ep-35, 0x1.2b4a96fb4eb06p-42,
    -0x1.6870f96a40f49p-40, 0x1.d64eff272ec20p-43, 0x1.5f38d1d4ee05dp-48,
    -0x1.f0d7cb120d782p-48, 0x1.12629eb5ef1d5p-50, 0x1.4bd8fdd8d283cp-55,
    -0x1.101d4b6a5a4d1p-55,
};

/* 2 sqrt(pi) x^(1/4) exp(zeta) Ai(x), u = (2 / x)^(3/2) */
static const double table_airy_far[] = {
    0x1.f803f8dd4194fp-1, -0x1.e4badf92f0698p-7, 0x1.8027b6119ca99p-11,
    -0x1.00f0eec77d5afp-14, 0x1.caac670d169d2p-18, -0x1.efeb84cedc369p-21,
    0x1.346d52b669db2p-23, -0x1.aba96d0e939bcp-26, 0x1.43a78ffb4b7e2p-28,
    -0x1.07707202858f2p-30, 0x1.c834c8a5f387ap-33, -0x1.a0b1c6e6db0c8p-35,
    0x1.8eda827e9a573p-37, -0x1.8df6dfaa1aa23p-39, 0x1.9c1e947dc07d1p-41,
    -0x1.b9591e92f35b6p-43, 0x1.e74cc999dbc9ap-45, -0x1.14a33407d0d9dp-46,
    0x1.42441e5f90db4p-48, -0x1.8071c47eb60a8p-50, 0x1.d4d85135aae64p-52,
    -0x1.23d2d8fabb65ep-53, 0x1.72547d78958f2p-55, -0x1.de81ec63c2c96p-57,
};

/* factor of cos(zeta - pi/4) in sqrt(pi) x^(1/4) Ai(-x), u = (4 / x)^3 */
static const double table_airy_cosine[] = {
    0x1.ffad8a8a4c03ep-1, -0x1.45f0f7da0086ep-11, 0x1.e1ebf839949afp-18,
    -0x1.f16a47972e4b5p-23, 0x1.c61ba99909726p-27, -0x1.2cae8342b7ab4p-30,
    0x1.035dcfdbf92b9p-33, -0x1.1102a690867cfp-36, 0x1.4fee1f8a8993dp-39,
    -0x1.d4ff322938cffp-42, 0x1.6b841cdb4ef97p-44, -0x1.33d285c05d7f7p-46,
    0x1.193ca15a9c534p-48, -0x1.12828b8046171p-50, 0x1.1bff39ae50b78p-52,
    -0x1.3566ce6dae749p-54, 0x1.610f3f0221a77p-56,
};

/* factor of sin(zeta - pi/4) times (x / 4)^(3/2), u = (4 / x)^3 */
static const double table_airy_sine[] = {
    0x1.a6d72edf8f95bp-7, -0x1.deded19ebf3cap-14, 0x1.4b89d256cf7a5p-19,
    -0x1.e4512997c9343p-24, 0x1.16ccaa16ee064p-27, -0x1.b5da5493162c9p-31,
    0x1.af78ce2b07e9fp-34, -0x1.fa2579b49e633p-37, 0x1.55097ec25a09fp-39,
    -0x1.0164f8612b0d0p-41, 0x1.ab32d4e56a173p-44, -0x1.8054ffd2e3fb3p-46,
    0x1.72c143155740cp-48, -0x1.7c2a77ea2f20ap-50, 0x1.9b6c29b21c0e4p-52,
    -0x1.d3323511ebd27p-54, 0x1.14fd7b0948691p-55, -0x1.558e0d8763eb5p-57,
    0x1.b473eab330614p-59, -0x1.201bc16a4ca63p-60, 0x1.87f587c22aaf5p-62,
    -0x1.121e6640281f3p-63,
};

#endif
