// What the page's code must hold beside its types; its form is prettier's.
import tseslint from 'typescript-eslint';

export default tseslint.config({ ignores: ['dist/', 'node_modules/'] }, ...tseslint.configs.recommended, {
  linterOptions: { reportUnusedDisableDirectives: 'error' },
  rules: {
    'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
    // A text in one piece is found by searching for it; it may be longer than a line.
    'max-len': [
      'error',
      { code: 110, ignoreStrings: true, ignoreTemplateLiterals: true, ignoreRegExpLiterals: true },
    ],
  },
});
