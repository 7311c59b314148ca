"""The container image of jobs: recipe, flavours, build and push."""
