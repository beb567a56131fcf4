//! The values that each algorithm's authors or first users published. They are facts; each comment names the source.

/// HighwayHash-64 of the first 0 to 64 bytes of `00 01 02 …` under the key `00 01 … 1f`:
/// `kExpected64` in google/highwayhash, `highwayhash/highwayhash_test.cc` and `c/highwayhash_test.c`.
pub(crate) const HIGHWAY: [u64; 65] = [
    0x907A_56DE_22C2_6E53,
    0x7EAB_43AA_C7CD_DD78,
    0xB8D0_569A_B0B5_3D62,
    0x5C6B_EFAB_8A46_3D80,
    0xF205_A468_9300_7EDA,
    0x2B8A_1668_E4A9_4541,
    0xBD4C_CC32_5BEF_CA6F,
    0x4D02_AE17_38F5_9482,
    0xE120_5108_E55F_3171,
    0x32D2_644E_C77A_1584,
    0xF6E1_0ACD_B103_A90B,
    0xC3BB_F461_5B41_5C15,
    0x243C_C204_0063_FA9C,
    0xA89A_58CE_65E6_41FF,
    0x24B0_31A3_4845_5A23,
    0x4079_3F86_A449_F33B,
    0xCFAB_3489_F97E_B832,
    0x19FE_67D2_C8C5_C0E2,
    0x04DD_90A6_9C56_5CC2,
    0x75D9_518E_2371_C504,
    0x38AD_9B11_41D3_DD16,
    0x0264_432C_CD8A_70E0,
    0xA9DB_5A62_8868_3390,
    0xD7B0_5492_003F_028C,
    0x205F_615A_EA59_E51E,
    0xEEE0_C896_2105_2884,
    0x1BFC_1A93_A728_4F4F,
    0x5121_75B5_B70D_A91D,
    0xF71F_8976_A0A2_C639,
    0xAE09_3FEF_1F84_E3E7,
    0x22CA_92B0_1161_860F,
    0x9FC7_007C_CF03_5A68,
    0xA0C9_64D9_ECD5_80FC,
    0x2C90_F73C_A031_81FC,
    0x185C_F84E_5691_EB9E,
    0x4FC1_F5EF_2752_AA9B,
    0xF5B7_391A_5E0A_33EB,
    0xB9B8_4B83_B4E9_6C9C,
    0x5E42_FE71_2A5C_D9B4,
    0xA150_F2F9_0C3F_97DC,
    0x7FA5_22D7_5E2D_637D,
    0x181A_D0CC_0DFF_D32B,
    0x3889_ED98_1E85_4028,
    0xFB42_97E8_C586_EE2D,
    0x6D06_4A45_BB28_059C,
    0x9056_3609_B3EC_860C,
    0x7AA4_FCE9_4097_C666,
    0x1326_BAC0_6B91_1E08,
    0xB926_168D_2B15_4F34,
    0x9919_8489_45B1_948D,
    0xA2A9_8FC5_3482_5EBE,
    0xE980_9095_213E_F0B6,
    0x582E_5483_707B_C0E9,
    0x086E_9414_A88A_6AF5,
    0xEE86_B98D_20F6_743D,
    0xF89B_7FF6_09B1_C0A7,
    0x4C7D_9CC1_9E22_C3E8,
    0x9A97_0050_2456_2A6F,
    0x5DD4_1CF4_23E6_EBEF,
    0xDF13_609C_0468_E227,
    0x6E0D_A4F6_4188_155A,
    0xB755_BA4B_50D7_D4A1,
    0x887A_3484_6474_79BD,
    0xAB8E_EBE9_BF21_39A0,
    0x7554_2C5D_4CD2_A6FF,
];

/// HighwayHash-64 under the key words 1, 2, 3, 4 of the bytes `80 81 … a0`, and of the one byte `ff`:
/// `c/highwayhash_test.c` and the Java test in google/highwayhash.
pub(crate) const HIGHWAY_1234: [u64; 2] = [0x53C5_16CC_E478_CAD7, 0x7858_F24D_2D79_B2B2];

/// XXH3-64: length, hash with seed 0, hash with seed [`XXH3_SEED`], of the first bytes of a generator that the
/// properties test repeats: `XSUM_XXH3_testdata` in Cyan4973/xxHash, `cli/xsum_sanity_check.c`.
pub(crate) const XXH3: [(usize, u64, u64); 13] = [
    (0, 0x2D06_8005_38D3_94C2, 0xA8A6_B918_B2F0_364A),
    (1, 0xC44B_DFF4_074E_ECDB, 0x032B_E332_DD76_6EF8),
    (6, 0x27B5_6A84_CD2D_7325, 0x8458_9C11_6AB5_9AB9),
    (12, 0xA713_DAF0_DFBB_77E7, 0xE730_3E1B_2336_DE0E),
    (24, 0xA3FE_70BF_9D35_10EB, 0x850E_80FC_35BD_D690),
    (48, 0x397D_A259_ECBA_1F11, 0xADC2_CBAA_44AC_C616),
    (80, 0xBCDE_FBBB_2C47_C90A, 0xC6DD_0CB6_9953_2E73),
    (195, 0xCD94_217E_E362_EC3A, 0xBA68_003D_370C_B3D9),
    (403, 0xCDEB_804D_65C6_DEA4, 0x6259_F6EC_FD64_43FD),
    (512, 0x617E_4959_9013_CB6B, 0x3CE4_57DE_14C2_7708),
    (2048, 0xDD59_E2C3_A5F0_38E0, 0x66F8_1670_669A_BABC),
    (2240, 0x6E73_A905_39CF_2948, 0x757B_A848_7D1B_5247),
    (2367, 0xCB37_AEB9_E5D3_61ED, 0xD2DB_3415_B942_B42A),
];

/// `PRIME64` of the same file: the other seed, and the factor of the generator.
pub(crate) const XXH3_SEED: u64 = 0x9E37_79B1_85EB_CA8D;

/// `PRIME32` of the same file: where the generator starts.
pub(crate) const XXH3_START: u64 = 0x9E37_79B1;

/// The verification value of MurmurHash3 x64-128: aappleby/smhasher, `src/main.cpp`.
pub(crate) const MURMUR3_VERIFICATION: u32 = 0x6384_BA69;

/// MurmurHash3 x64-128: seed, key, `h1`, `h2`. google/guava, `Murmur3Hash128Test.java`; the one of "foo" is in the
/// README of the Python package `mmh3`.
pub(crate) const MURMUR3: [(u32, &str, u64, u64); 9] = [
    (0, "hell", 0x6299_4269_3E10_F867, 0x92DB_0B82_BAEB_5347),
    (1, "hello", 0xA78D_DFF5_ADAE_8D10, 0x1289_00EF_2090_0135),
    (2, "hello ", 0x8A48_6B23_F422_E826, 0xF962_A2C5_8947_765F),
    (3, "hello w", 0x2EA5_9F46_6F6B_ED8C, 0xC610_990A_CC42_8A17),
    (4, "hello wo", 0x79F6_305A_386C_572C, 0x4630_5AED_3483_B94E),
    (5, "hello wor", 0xC221_9D21_3EC1_F1B5, 0xA1D8_E2E0_A527_85BD),
    (
        0,
        "The quick brown fox jumps over the lazy dog",
        0xE34B_BC7B_BC07_1B6C,
        0x7A43_3CA9_C49A_9347,
    ),
    (
        0,
        "The quick brown fox jumps over the lazy cog",
        0x658C_A970_FF85_269A,
        0x43FE_E3EA_A68E_5C3E,
    ),
    (0, "foo", 0xE271_8657_01F5_4561, 0x7EAF_87E4_2BBA_7D87),
];

/// splitmix64, seed 1234567, the first five numbers: rosettacode.org, "Pseudo-random numbers/Splitmix64".
pub(crate) const SPLITMIX: [u64; 5] = [
    6_457_827_717_110_365_317,
    3_203_168_211_198_807_973,
    9_817_491_932_198_370_423,
    4_593_380_528_125_082_431,
    16_408_922_859_458_223_821,
];
